"""Inputs for plain functions of (q, k, v, …), sizes different so that axes can be told apart."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.differ.cases.trial import Trial, attempt, unmade
from attnscope.differ.sides.subject import Inputs, Subject

if TYPE_CHECKING:
    from attnscope.differ.comparison import Comparison

__all__ = ["Plain", "plain_cases", "qkv"]

_SIZES = ("batch", "heads", "queries", "keys", "head_dim", "value_dim")


def qkv(
    seed: int,
    *,
    batch: int = 2,
    heads: int = 3,
    queries: int = 7,
    keys: int = 7,
    head_dim: int = 8,
    value_dim: int = 8,
    kv_heads: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return random q, k and v in the canonical layout, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    kv_heads = heads if kv_heads is None else kv_heads
    shapes = (
        (batch, heads, queries, head_dim),
        (batch, kv_heads, keys, head_dim),
        (batch, kv_heads, keys, value_dim),
    )
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return q, k, v


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """Inputs of plain functions: q, k and v come first, others are masks, biases, sinks.

    tokens: the axis of queries and keys, which is 1 in (batch, length, heads, head_dim).
    """

    inputs: Inputs
    tokens: int = -2

    @property
    def values(self) -> dict[Any, Any]:
        """All inputs by name or place."""
        inputs = self.inputs
        return dict(inputs) if isinstance(inputs, Mapping) else dict(enumerate(inputs))

    @property
    def sizes(self) -> dict[str, int]:
        """All sizes by name; batch and heads are 1 where there is no such axis."""
        q, k, v = list(self.values.values())[:3]
        heads = q.shape[self._head_axis] if q.dim() == 4 else 1
        batch = q.shape[0] if q.dim() > 2 else 1
        tokens = q.shape[self.tokens], k.shape[self.tokens]
        found = (batch, heads, *tokens, q.shape[-1], v.shape[-1])
        return dict(zip(_SIZES, found, strict=True))

    @property
    def group(self) -> int:
        """Query heads that share a kv head."""
        k = list(self.values.values())[1]
        kv_heads = k.shape[self._head_axis] if k.dim() == 4 else 1
        return max(self.sizes["heads"] // kv_heads, 1)

    @property
    def _head_axis(self) -> int:
        return 1 if self.tokens != 1 else 2

    def cut(self, name: str, count: int, *, last: bool = False) -> Inputs:
        """Return the inputs with the first (or last) `count` along one of the sizes.

        name: of a size, or "length", which is queries and keys alike. Of heads a multiple of the
        group.
        """
        changed = {}
        for place, (key, value) in enumerate(self.values.items()):
            if isinstance(value, Tensor):
                for axis, left in self._axes(name, count, place, value):
                    start = value.shape[axis] - left if last else 0
                    value = value.narrow(axis, start, left)  # noqa: PLW2901  each axis in turn
            changed[key] = value
        if isinstance(self.inputs, Mapping):
            return changed
        return tuple(changed.values())

    def _axes(self, name: str, count: int, place: int, value: Tensor) -> list[tuple[int, int]]:
        """Return which axes of a tensor are cut to what."""
        if place > 2:
            return self._axes_of_mask(name, count, value)
        if name == "batch" and value.dim() > 2:
            return [(0, count)]
        if name == "heads" and value.dim() == 4:
            kv_heads = max(count // self.group, 1)
            return [(self._head_axis, count if not place else kv_heads)]
        taken = {
            "queries": (0,),
            "keys": (1, 2),
            "length": (0, 1, 2),
            "head_dim": (0, 1),
            "value_dim": (2,),
        }
        if place not in taken.get(name, ()):
            return []
        return [(-1 if name.endswith("dim") else self.tokens, count)]

    def _axes_of_mask(self, name: str, count: int, value: Tensor) -> list[tuple[int, int]]:
        sizes, dims = self.sizes, value.dim()
        axes = {
            "batch": [0] if dims > 2 else [],
            "heads": [1] if dims == 4 else [0] if dims in {1, 3} else [],
            "queries": [-2] if dims > 1 else [],
            "keys": [-1] if dims > 1 else [],
        }
        names = ["queries", "keys"] if name == "length" else [name]
        return [
            (axis, count)
            for each in names
            for axis in axes.get(each, [])
            if value.shape[axis] == sizes[each] and sizes[each] >= count
        ]


# -- cases ---------------------------------------------------------------------------------------


def plain_cases(comparison: Comparison, *, declared: bool) -> Iterator[Trial]:
    """Iterate over the cases of two functions of (q, k, v, …).

    Args:
        comparison: of the two.
        declared: somebody gave the inputs: they are cut, and nothing else is made.
    """
    comparison = comparison.on(comparison.inputs)
    comparison.candidate = _with_signature(comparison.candidate)
    comparison.reference = _with_signature(comparison.reference)
    tokens = comparison.options.expect.get("sequence_axis", -2)
    plain = Plain(comparison.inputs, tokens)
    first = list(plain.values.values())[:3]
    if len(first) < 3 or not all(isinstance(x, Tensor) and x.dim() > 1 for x in first):
        return
    yield from _cut(comparison, plain)
    if not declared:
        yield from _made(comparison)
        yield from _with_arguments(comparison)


def _cut(comparison: Comparison, plain: Plain) -> Iterator[Trial]:
    sizes = plain.sizes
    if sizes["batch"] > 1:
        yield attempt("one sample", comparison.on(plain.cut("batch", 1)))
    square = sizes["queries"] == sizes["keys"]
    name = "length" if square else "queries"
    for count in sorted({1, 2, (sizes["queries"] + 1) // 2}):
        if count < sizes["queries"]:
            said = (
                f"length {count}" if square else f"{count} {'query' if count == 1 else 'queries'}"
            )
            yield attempt(said, comparison.on(plain.cut(name, count)))


def _made(comparison: Comparison) -> Iterator[Trial]:
    """Try shapes that the default inputs don't have."""
    shapes: dict[str, dict[str, int]] = {
        "3 samples": {"batch": 3},
        "length 40": {"queries": 40, "keys": 40},
        "fewer queries than keys": {"queries": 5, "keys": 9},
        "one query, several keys": {"queries": 1, "keys": 9},
        "kv heads shared": {"heads": 6, "kv_heads": 2},
        "value_dim other than head_dim": {"value_dim": 5},
    }
    for name, sizes in shapes.items():
        yield attempt(name, comparison.on(qkv(comparison.options.seed, **sizes)))
    for dtype in (torch.float64, torch.bfloat16):
        inputs = tuple(each.to(dtype) for each in qkv(comparison.options.seed))
        yield attempt(str(dtype).removeprefix("torch."), comparison.on(inputs))


def _with_arguments(comparison: Comparison) -> Iterator[Trial]:
    """Try a mask and causal attention where both sides take an argument of that name."""
    sides = comparison.candidate, comparison.reference
    taken = [{parameter.name for parameter in side.parameters_of_run()} for side in sides]
    tensors = dict(zip("qkv", qkv(comparison.options.seed), strict=True))
    for name in ("causal", "is_causal"):
        if all(name in each for each in taken):
            yield attempt(f"{name}=True", comparison.on({**tensors, name: True}))
    for name in ("attn_mask", "mask"):
        if all(name in each for each in taken):
            yield _masked(name, comparison.on({**tensors, name: _mask(comparison.options.seed)}))


def _mask(seed: int) -> Tensor:
    """Return a mask (queries, keys) that hides something of each row and shows something."""
    mask = torch.rand(7, 7, generator=torch.Generator().manual_seed(seed)) < 0.6  # noqa: PLR2004  more than half
    mask[:, 0], mask[:, -1] = True, False
    return mask


def _masked(name: str, comparison: Comparison) -> Trial:
    """Try a mask, True = may attend; a side may have another convention for a name of its own."""
    said = f"{name} given, True = may attend"
    trial = attempt(said, comparison)
    if trial.case.equal is not False or name == "attn_mask":
        return trial
    conventions: dict[str, Callable[[Tensor], Tensor]] = {
        "True = hidden": lambda mask: ~mask,
        "a number to be added": lambda mask: torch.zeros(mask.shape).masked_fill(~mask, -1e9),
    }
    for meaning, convert in conventions.items():
        other = comparison.on(comparison.inputs)
        other.candidate = _converting(comparison.candidate, name, convert)
        if attempt(said, other).case.equal:
            return unmade(said, f"{comparison.candidate.name} takes {name} as {meaning}")
    return trial


def _converting(side: Subject, name: str, convert: Callable[[Tensor], Tensor]) -> Subject:
    @functools.wraps(side.run)
    def run(*args: Any, **kwargs: Any) -> Any:
        value = kwargs[name]
        wanted = convert(torch.as_tensor(value))
        kwargs[name] = wanted if isinstance(value, Tensor) else wanted.numpy()
        return side.run(*args, **kwargs)

    return Subject(side.name, run, side.inputs)


def _with_signature(side: Subject) -> Subject:
    """Return torch's own function as one whose arguments can be asked for, kv heads in groups."""
    if side.run is not F.scaled_dot_product_attention:
        return side

    def attend(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any) -> Tensor:
        named.setdefault("enable_gqa", query.shape[1] != key.shape[1])
        return F.scaled_dot_product_attention(query, key, value, *rest, **named)

    attend.__signature__ = inspect.Signature(side.parameters_of_run())  # type: ignore[attr-defined]
    return Subject(side.name, attend, side.inputs)
