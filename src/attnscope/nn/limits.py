"""All that is added to scores or hidden from them in one forward, whatever convention it came in.

Three things are kept apart, since they differ in kind: what the caller adds in the convention of
`torch.nn.MultiheadAttention` (a float mask, or a boolean one turned into 0 and -inf), what
positions add, and who may attend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnscope.axes import Bias, Query, Scores, Visible
from attnscope.nn.checking import check_mask, check_visible
from attnscope.nn.masks import Mask
from attnscope.nn.places import Whereabouts
from attnscope.nn.positions import Positions
from attnscope.nn.refusals import RefusedInputError

__all__ = ["Limits", "TorchMasks", "limits_of"]

Additive: TypeAlias = Float[Tensor, "#batch_heads #queries keys"]


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """What is added to the scores and hidden.

    additive: (batch · heads or 1, queries or 1, keys), finite or -inf. bias, visible: broadcast
    to (batch, heads, queries, keys), True = may attend. causal: all there is is a causal mask
    (top-left), which a kernel makes by itself.
    """

    additive: Additive | None = None
    bias: Bias | None = None
    visible: Visible | None = None
    causal: bool = False

    def widened(self, columns: int = 1) -> Limits:
        """Return the limits with more keys behind the others, which all may attend to."""
        return Limits(
            None if self.additive is None else F.pad(self.additive, (0, columns)),
            None if self.bias is None else F.pad(self.bias, (0, columns)),
            None if self.visible is None else F.pad(self.visible, (0, columns), value=True),
            self.causal,
        )

    def on(self, scores: Scores, *, additive: bool) -> Scores:
        """Return the scores with all of it; `additive=False` where that is in them already."""
        if additive and self.additive is not None:
            scores = scores + self._by_head(*scores.shape[:2])
        if self.bias is not None:
            scores = scores + self.bias
        if self.visible is not None:
            scores = scores.masked_fill(~self.visible, float("-inf"))
        return scores

    def as_one(self, batch: int, heads: int) -> Tensor | None:
        """Return one mask for `F.scaled_dot_product_attention`: True = may attend, or added."""
        added = None if self.additive is None else self._by_head(batch, heads)
        if self.bias is not None:
            added = self.bias if added is None else added + self.bias
        if added is None or self.visible is None:
            return self.visible if added is None else added
        return torch.where(self.visible, added, float("-inf"))

    def _by_head(self, batch: int, heads: int) -> Bias:
        additive = self.additive
        assert additive is not None  # noqa: S101  asked for only where it is there
        return additive[None] if additive.shape[0] == 1 else additive.unflatten(0, (batch, heads))


def limits_of(
    q: Query, scale: float, where: Whereabouts, positions: Positions | None, *masks: Mask | None
) -> Limits:
    """Return what positions add to the scores of q, and what all masks show.

    Raises:
        RefusedInputError: a mask of another batch.
    """
    given = [mask for mask in masks if mask is not None]
    counted = next((mask.counted for mask in given if mask.counted is not None), None)
    visible = bias = None
    for mask in given:
        if counted is None:
            seen = mask.visible(where.queries, where.keys)
        else:
            seen = mask.among(where.queries, where.keys, counted)
        check_visible(mask, seen, (*q.shape[:3], where.keys.shape[0]))
        visible = seen if visible is None else visible & seen
    if positions is not None:
        bias = positions.bias(q * scale, where.query_positions, where.key_positions)
    return Limits(bias=bias, visible=visible)


@dataclass(frozen=True, slots=True, eq=False)
class TorchMasks:
    """The masks of `torch.nn.MultiheadAttention`: True = may NOT attend, or floats that are added.

    attn: (queries, keys) or (batch · heads, queries, keys); padding: (batch, keys), or (keys,)
    without a batch; hint: `is_causal`, which says that `attn` is the causal mask.
    """

    attn: Tensor | None
    padding: Tensor | None
    hint: bool
    batched: bool

    def into(self, limits: Limits, q: Query, keys: int, seen: int, *, hinted: bool) -> Limits:
        """Return the limits with these masks among them.

        Args:
            limits: all others.
            q: (batch, heads, queries, head_dim).
            keys: how many there are.
            seen: how many there would be if a cache had kept all of them: masks may cover those.
            hinted: a kernel that makes the causal mask by itself may follow the hint.

        Raises:
            RefusedInputError: another shape or type, or a hint without a mask.
        """
        batch, heads, queries = q.shape[:3]
        rows, wholes = (queries, keys), (queries, seen)
        samples = batch * heads
        alone = limits.bias is None and limits.visible is None and self.padding is None
        by_hint = self.hint and alone and hinted
        if not by_hint or self.attn is None or self.attn.dim() not in {2, 3}:  # else it isn't used
            check_mask("attn_mask", self.attn, rows, (samples, *rows), wholes, (samples, *wholes))
        one = (batch,) if self.batched else ()
        check_mask("key_padding_mask", self.padding, (*one, keys), (*one, seen))
        if self.hint and self.attn is None:
            raise RefusedInputError(
                "attending with is_causal=True",
                "no attn_mask, of which it is a hint",
                "give attn_mask as well, or make the module with mask=Causal()",
            )
        if by_hint:
            return replace(limits, causal=True)
        return replace(limits, additive=self._additive(batch, heads, keys, q.dtype))

    def _additive(self, batch: int, heads: int, keys: int, dtype: torch.dtype) -> Additive | None:
        padding = F._canonical_mask(  # noqa: SLF001  torch's own conversion, and its warning
            self.padding,
            "key_padding_mask",
            None if self.attn is None else self.attn.dtype,
            "attn_mask",
            dtype,
        )
        added = F._canonical_mask(  # noqa: SLF001  the same
            self.attn, "attn_mask", None, "", dtype, check_other=False
        )
        if added is not None:
            added = (added[None] if added.dim() == 2 else added)[..., -keys:]
        if padding is None:
            return added
        padding = padding[..., -keys:].view(batch, 1, 1, keys).expand(-1, heads, -1, -1)
        padding = padding.reshape(batch * heads, 1, keys)
        return padding if added is None else added + padding
