"""Norms with another epsilon, of another sort, or over other axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attnscope.calls.program import Operation, map_leaves
from attnscope.explain.change import Change
from attnscope.explain.kinds.around.finding_norms import WHOLE, described, norm_segments
from attnscope.explain.kinds.around.rewriting import with_constant
from attnscope.explain.kinds.around.sides import Edit, OwnPart
from attnscope.explain.part import Part
from attnscope.explain.reading.flow import Segment
from attnscope.explain.reading.levels import levels
from attnscope.explain.scene import Scene

__all__ = ["norm_eps", "norm_kind", "norm_width"]

_USUAL = (0.0, 1e-3, 1e-5, 1e-6, 1e-8, 1e-12, 1e-7, 1e-4, 1e-2)
_LARGEST = 0.5
"""A constant that is added and is not larger may be an epsilon."""
_ALIKE = 1e-7
"""Share of the largest entry that a sort of norm, with its weight fitted, may leave."""


def norm_eps(side: OwnPart) -> Iterator[Edit]:
    """Propose another epsilon: those of the other side, or usual ones where it has none."""
    other = side.other
    theirs = [] if other is None else [eps for op in other.operations for eps in _epsilons(op)]
    done = set()
    for segment in norm_segments(side):
        for op in segment.operations:
            for eps in _epsilons(op):
                if op.defines[0] in done:
                    continue
                for new in dict.fromkeys(theirs or _USUAL):
                    if new != eps:
                        yield _with_eps(side, segment, op, eps, new)
                done.add(op.defines[0])


def _with_eps(side: OwnPart, segment: Segment, op: Operation, eps: float, new: float) -> Edit:
    ours, theirs = (eps, new) if side.mends else (new, eps)
    text = f"{described(side, segment)} has eps {ours:g} where the reference has {theirs:g}"
    edited = with_constant(op, eps, new)
    if op.name in WHOLE and "eps" not in op.kwargs and not _constants(op):
        edited = replace(op, kwargs={**op.kwargs, "eps": new})
    return side.edited("norm-eps", text, edited, at=segment.place, way=f"{new:g}")


def _epsilons(op: Operation) -> list[float]:
    """Return the constants of an operation that may be an epsilon."""
    name = op.name.strip("_")
    if name in WHOLE:
        return _constants(op) or ([1e-5] if name == "layer_norm" else [0.0])
    if name in {"add", "radd", "clamp", "clamp_min", "maximum"}:
        return _constants(op)
    return []


def _constants(op: Operation) -> list[float]:
    found: list[float] = []

    def look(leaf: object) -> object:
        if isinstance(leaf, float) and 0 <= leaf <= _LARGEST:
            found.append(leaf)
        return leaf

    map_leaves([op.args, dict(op.kwargs)], look)
    return found


Sort = Callable[[Tensor, float], Tensor]


def _layer(x: Tensor, eps: float, axes: tuple[int, ...] = (-1,)) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    return centred * (centred.square().mean(axes, keepdim=True) + eps).rsqrt()


def _rms(x: Tensor, eps: float, axes: tuple[int, ...] = (-1,)) -> Tensor:
    return x * (x.square().mean(axes, keepdim=True) + eps).rsqrt()


def _unbiased(x: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) * (x.var(-1, keepdim=True) + eps).rsqrt()


def _beside_std(x: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)


def _beside_root(x: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True).sqrt() + eps)


def _beside_rms(x: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True).sqrt() + eps)


def _unit(x: Tensor, eps: float) -> Tensor:
    return x * (x.square().sum(-1, keepdim=True) + eps).rsqrt()


_SORTS: dict[str, Sort] = {
    "LayerNorm (mean subtracted)": _layer,
    "RMSNorm (mean not subtracted)": _rms,
    "LayerNorm with the unbiased variance (n − 1)": _unbiased,
    "LayerNorm with eps added to the standard deviation, n − 1": _beside_std,
    "LayerNorm with eps added to the standard deviation": _beside_root,
    "RMSNorm with eps added to the root": _beside_rms,
    "unit length (sum of squares, not their mean)": _unit,
    "LayerNorm over the positions": partial(_layer, axes=(1,)),
    "LayerNorm over positions and features": partial(_layer, axes=(1, -1)),
    "LayerNorm over the batch": partial(_layer, axes=(0,)),
    "RMSNorm over the positions": partial(_rms, axes=(1,)),
}


def norm_kind(side: OwnPart) -> Iterator[Edit]:
    """Propose a norm of another sort, or over other axes, with the same weight and bias."""
    done: set[int] = set()
    for segment in norm_segments(side):
        x, made = side.flow.values[segment.start], side.flow.values[segment.end]
        found = [eps for op in segment.operations for eps in _epsilons(op)]
        eps, bias = next(iter(found), 0.0), _at_zero(side, segment)
        own = next((name for name, sort in _SORTS.items() if _fits(sort(x, eps), made, bias)), None)
        if own is None or segment.start in done:
            continue
        done.add(segment.start)
        weight = _weight(_SORTS[own](x, eps), made, bias)
        for name, sort in _SORTS.items():
            if name != own:
                first, second = (own, name) if side.mends else (name, own)
                text = f"{first} where the reference has {second}, {segment.place}"
                function = partial(_affine, sort, eps, weight, bias)
                yield side.instead(segment, function, "norm-kind", text, name)


def _affine(sort: Sort, eps: float, weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    return sort(x, eps) * weight + bias


def _at_zero(side: OwnPart, segment: Segment) -> Tensor:
    """Return what a norm makes of zeros: its bias."""
    zeros = torch.zeros_like(side.flow.values[segment.start])
    made = side.flow.run(given={segment.start: zeros}, wanted=segment.end)
    return made.nan_to_num(0.0)


def _weight(plain: Tensor, made: Tensor, bias: Tensor) -> Tensor:
    """Return the weight of each feature by which a norm without weight gives one with it."""
    axes = tuple(range(plain.ndim - 1))
    return ((made - bias) * plain).sum(axes) / plain.square().sum(axes).clamp_min(1e-300)


def _fits(plain: Tensor, made: Tensor, bias: Tensor) -> bool:
    if not bool(plain.isfinite().all()):
        return False
    left = (plain * _weight(plain, made, bias) + bias - made).abs().max()
    return float(left) <= _ALIKE * max(float(made.abs().max()), 1e-30)


def norm_width(scene: Scene) -> Iterator[Change]:
    """Propose a norm of q or k over all heads together, or over each head."""
    part = scene.reference.parts.get(scene.stage)
    if scene.stage not in {"q", "k"} or part is None:
        return
    way = [level for level in levels(scene.expected, part) if level.value is not None]
    eps = next(iter(_found(part)), 0.0)
    ways = {"each head": (-1,), "all heads together": (1, 3)}
    for at, end in enumerate(way):
        for start in way[at + 1 :]:
            for sort in (_rms, _layer):
                for name, axes in ways.items():
                    plain = sort(start.tensor, eps, axes)
                    weight = (end.tensor * plain).sum((0, 2), keepdim=True)
                    weight = weight / plain.square().sum((0, 2), keepdim=True).clamp_min(1e-300)
                    gap = float((plain * weight - end.tensor).abs().max())
                    if gap > _ALIKE * float(end.tensor.abs().max()):
                        continue
                    (other,) = (each for each in ways if each != name)
                    value = sort(start.tensor, eps, ways[other]) * weight
                    yield Change(
                        "qk-norm",
                        f"{scene.stage} is normalised over {other} where the reference normalises "
                        f"over {name} ({start.tensor.shape[1]} heads of {start.tensor.shape[3]})",
                        lambda end=end, value=value: end.onward(value),  # type: ignore[misc]
                    )


def _found(part: Part) -> list[float]:
    return [eps for op in part.operations for eps in _epsilons(op)]
