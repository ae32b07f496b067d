"""What each query may see: boolean, True = may attend, kept as small as its kind allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self, TypeAlias

import torch
from jaxtyping import Bool
from torch import Tensor

from attnscope.calls.broadcasting import rows_of
from attnscope.calls.maskkind import Alignment, explain
from attnscope.errors import InputError

__all__ = ["Alignment", "Mask"]

Visible: TypeAlias = Bool[Tensor, "#batch #heads #queries #keys"]

ORDER = (
    "none",
    "causal",
    "causal-bottom-right",
    "prefix",
    "window",
    "documents",
    "padding",
    "custom",
)
"""The kinds of mask, in the order in which `Mask.kind` joins them."""

_BLOCK = 256


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """What each query may see, True = may attend; all given parts must agree.

    causal: "top-left": key <= query; "bottom-right": key <= query + keys - queries; None: no edge.
    window: the distance of key and query, counted from the causal edge (without one: from key =
        query), is less than this; under a causal edge it is the number of keys that a query sees.
    tensor: boolean, broadcastable to (batch, heads, queries, keys); None: nothing more is hidden.
    kinds: what it is, of `ORDER`. visible: share of (query, key) pairs that may attend, over batch
    and heads. sizes: (queries, keys) for which `visible` was counted, None where any will do.
    """

    causal: Alignment | None = None
    window: int | None = None
    tensor: Tensor | None = None
    kinds: frozenset[str] = field(default=frozenset({"none"}))
    visible: float = 1.0
    sizes: tuple[int, int] | None = None

    @classmethod
    def nothing(cls) -> Self:
        """Return the mask that hides nothing."""
        return cls()

    @classmethod
    def causal_mask(
        cls, alignment: Alignment, queries: int, keys: int, window: int | None = None
    ) -> Self:
        """Return the causal mask, with a sliding window of `window` keys where one is given.

        Where both corners hide the same pairs the kind is "causal", and where nothing is hidden
        (one query, bottom-right) it is "none".
        """
        reach = keys - queries if alignment == "bottom-right" else 0
        corner: Alignment = "top-left" if reach == 0 else alignment
        edge_hides = reach < keys - 1
        window_hides = window is not None and window < queries + reach
        kinds = set()
        if edge_hides:
            kinds.add("causal" if corner == "top-left" else "causal-bottom-right")
        if window_hides:
            kinds.add("window")
        causal = corner if kinds else None  # a window hangs on the edge even where that hides none
        parts = cls(causal, window if window_hides else None)
        share = _share(parts, queries, keys)
        names = frozenset(kinds or {"none"})
        return cls(causal, parts.window, None, names, share, (queries, keys))

    @classmethod
    def from_tensor(
        cls, visible: Tensor, queries: int | None = None, keys: int | None = None
    ) -> Self:
        """Return the mask that a boolean tensor is, kept by its rule where it follows one.

        Args:
            visible: True = may attend, broadcastable to (batch, heads, queries, keys).
            queries: their true number, where that axis of `visible` may be broadcast.
            keys: the same for the keys.

        Raises:
            InputError: not boolean, or more than four axes.
        """
        if visible.dtype != torch.bool or visible.dim() > len("bhqk"):
            raise InputError(
                "reading a mask",
                f"a tensor of type {visible.dtype} and shape {tuple(visible.shape)}",
                "give a boolean tensor (batch, heads, queries, keys) with True = may attend",
            )
        visible = visible.detach()[(None,) * (len("bhqk") - visible.dim())]
        sizes = (queries or visible.shape[-2], keys or visible.shape[-1])
        visible = visible.expand(*visible.shape[:2], *sizes)
        found = explain(visible)
        return cls(
            found.causal,
            found.window,
            found.remainder,
            found.kinds,
            float(visible.count_nonzero()) / max(1, visible.numel()),
            sizes,
        )

    @property
    def kind(self) -> str:
        """The kinds in a fixed order: "none", "causal", "causal+window+padding", …."""
        return "+".join(kind for kind in ORDER if kind in self.kinds)

    @property
    def hides(self) -> bool:
        """Whether any part could hide a key."""
        return self.causal is not None or self.window is not None or self.tensor is not None

    def rows(
        self, start: int, stop: int, queries: int, keys: int, device: torch.device | str
    ) -> Visible:
        """Build query rows `start` to `stop`: (batch or 1, heads or 1, stop - start, keys)."""
        key = torch.arange(keys, device=device)
        edge = torch.arange(start, stop, device=device)[:, None]
        if self.causal == "bottom-right":
            edge = edge + (keys - queries)
        seen = torch.ones(1, 1, stop - start, keys, dtype=torch.bool, device=device)
        if self.causal is not None:
            seen = seen & (key <= edge)
        if self.window is not None:
            seen = seen & ((key - edge).abs() < self.window)
        if self.tensor is not None:
            seen = seen & rows_of(self.tensor.to(device), start, stop)
        return seen

    def dense(self, queries: int, keys: int, device: torch.device | str = "cpu") -> Visible:
        """Build the whole mask: (batch or 1, heads or 1, queries, keys)."""
        return self.rows(0, queries, queries, keys, device)

    def to_json(self) -> dict[str, str | float]:
        """Return kind and visible share, as the JSON formats carry them."""
        return {"kind": self.kind, "visible": self.visible}

    def __and__(self, other: Mask) -> Mask:
        """Return the mask that hides what either hides; `visible` is counted anew.

        Raises:
            InputError: the two were made for different numbers of queries or keys.
        """
        if not other.hides:
            return self
        if not self.hides:
            return other
        queries, keys = _common_sizes(self, other)
        kinds = (self.kinds | other.kinds) - {"none"}
        simple = _merge_parts(self, other)
        if simple is None:
            device = next((m.tensor.device for m in (self, other) if m.tensor is not None), "cpu")
            tensor = self.dense(queries, keys, device) & other.dense(queries, keys, device)
            simple = Mask(tensor=tensor)
        share = _share(simple, queries, keys)
        return Mask(simple.causal, simple.window, simple.tensor, kinds, share, (queries, keys))


def _merge_parts(a: Mask, b: Mask) -> Mask | None:
    """Join the parts of two masks, or return None where only a tensor says what both hide."""
    if a.causal != b.causal and not (a.causal is None or b.causal is None):
        return None
    windows = [m.window for m in (a, b) if m.window is not None]
    if windows and (a.causal == "bottom-right") != (b.causal == "bottom-right"):
        return None  # they count the distance from different edges
    tensors = [m.tensor for m in (a, b) if m.tensor is not None]
    tensor = tensors[0] if tensors else None
    for more in tensors[1:]:
        tensor = more if tensor is None else tensor & more.to(tensor.device)
    return Mask(a.causal or b.causal, min(windows) if windows else None, tensor)


def _common_sizes(a: Mask, b: Mask) -> tuple[int, int]:
    sizes = {mask.sizes for mask in (a, b) if mask.sizes is not None}
    if len(sizes) == 1:
        return sizes.pop()
    raise InputError(
        "combining two masks",
        f"they are for (queries, keys) of {a.sizes} and {b.sizes}",
        "make both with Mask.causal_mask or Mask.from_tensor for the same queries and keys",
    )


def _share(mask: Mask, queries: int, keys: int) -> float:
    """Count the visible pairs in blocks of rows, over the batch and heads of the tensor."""
    device = "cpu" if mask.tensor is None else mask.tensor.device
    seen = total = 0
    for start in range(0, queries, _BLOCK):
        block = mask.rows(start, min(queries, start + _BLOCK), queries, keys, device)
        seen += int(block.count_nonzero())
        total += block.numel()
    return seen / max(1, total)
