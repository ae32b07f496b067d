"""Residual additions, factors, activations and dropout between one attention and the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from attnscope.calls.program import Operation
from attnscope.explain.flow import CONTRACTIONS, Segment
from attnscope.explain.kinds.finding_norms import as_function, described, norm_segments
from attnscope.explain.kinds.rewriting import after, before, passing, replaced, with_operand
from attnscope.explain.kinds.sides import Edit, OwnPart

__all__ = [
    "activation",
    "dropout_around",
    "embedding_scale",
    "factor",
    "piece_missing",
    "residual",
    "rewired",
]

_ADDS = frozenset("add iadd radd".split())
_ALIKE = 1e-9


def residual(side: OwnPart) -> Iterator[Edit]:
    """Propose a residual addition left out or done twice, on either operand."""
    for op in side.flow.operations:
        operands = list(dict.fromkeys(side.flow.operands(op)))
        if op.name.strip("_") not in _ADDS or len(operands) != 2:
            continue
        shapes = {side.flow.values[value].shape for value in operands}
        if len(shapes) != 1:
            continue
        stream, branch = _roles(side, operands)
        if not any(_projected(side, value) for value in operands):
            continue  # embeddings are added up
        where = _place(side, op, branch)
        for key, text, edited in _additions(side, op, stream, branch):
            yield side.edited(key, f"{text} {where}", edited, at=where, way=text)


def _additions(
    side: OwnPart, op: Operation, stream: int, branch: int
) -> Iterator[tuple[str, str, Operation]]:
    """Iterate over what may be done at one residual addition: key, text, operation."""
    alone, skipped = passing(op, branch), passing(op, stream)
    if side.mends:
        yield "residual-doubled", "residual added where the reference has none,", alone
        yield "residual-doubled", "a branch added where the reference has none,", skipped
        return
    yield "residual-missing", "residual missing: only the branch goes on", alone
    yield "residual-missing", "branch missing: only the residual goes on", skipped
    yield "residual-doubled", "residual added twice", before(op, stream, _twice)
    yield "residual-doubled", "branch added twice", before(op, branch, _twice)
    yield "residual-sign", "branch subtracted", before(op, branch, torch.neg)
    shape = side.flow.values[stream].shape
    for value in sorted(set(side.flow.dominators(branch)) - {stream}):
        if side.flow.values[value].shape == shape:
            text = "residual is what the branch starts from, after its norm,"
            yield "residual-place", text, with_operand(op, stream, value)


def _twice(tensor: Tensor) -> Tensor:
    return 2 * tensor


def _roles(side: OwnPart, operands: list[int]) -> tuple[int, int]:
    """Return which operand is the stream and which the branch: a branch ends in a projection."""
    first, second = operands
    makers = [_last_product(side, value) for value in operands]
    if makers[0] is not None and makers[1] is None:
        return second, first
    if makers[0] is None or makers[1] is None:
        return first, second
    return (first, second) if first < second else (second, first)


def _last_product(side: OwnPart, value: int) -> Operation | None:
    """Return the product that makes a value, but for dropout, biases and reshapes."""
    op = side.flow.maker.get(value)
    while op is not None and op.name not in CONTRACTIONS:
        operands = side.flow.operands(op)
        if len(operands) != 1:
            return None
        op = side.flow.maker.get(operands[0])
    return op


def _place(side: OwnPart, op: Operation, branch: int) -> str:
    made = _last_product(side, branch)
    names = side.flow.parameters_of((made,)) if made is not None else ()
    where = f"after {names[0].rpartition('.')[0]}" if names else "around a block"
    return where if op.source is None else f"{where} (line {op.source.line})"


def embedding_scale(side: OwnPart) -> Iterator[Edit]:
    """Propose a factor of the embeddings left out, or √d_model where there is none."""
    found = False
    for segment in side.flow.segments:
        if not _projected(side, segment.start):
            for edit in _without_factor(side, segment, "embedding-scale"):
                found = True
                yield edit
    if side.mends or found:
        return
    for op in side.flow.operations:
        made = op.defines[0]
        looked_up = op.name == "embedding" or (
            op.name == "getitem" and made in side.flow.activations and not side.flow.operands(op)
        )
        if not looked_up:
            continue
        size = side.flow.values[made].shape[-1]
        for text, factor in {"√d_model": size**0.5, "1/√d_model": size**-0.5}.items():
            scaled = after(op, partial(_times, factor))
            told = f"embeddings times {factor:.6g} = {text} where the reference has no factor"
            yield side.edited("embedding-scale", told, scaled)


def _times(number: float, tensor: Tensor) -> Tensor:
    return tensor * number


def factor(side: OwnPart) -> Iterator[Edit]:
    """Propose a constant factor of a branch or stream left out."""
    for segment in side.flow.segments:
        if _projected(side, segment.start):
            yield from _without_factor(side, segment, "factor")


def _without_factor(side: OwnPart, segment: Segment, key: str) -> Iterator[Edit]:
    number = None if segment.projects else _factor(side, segment)
    if number is None:
        return
    told = f"{number:.6g}{_equal(number, side.flow.values[segment.end].shape[-1])}"
    if side.mends:
        text = f"a factor of {told} where the reference has none, {segment.place}"
    else:
        text = f"no factor where the reference has {told}, {segment.place}"
    yield side.without(segment, key, text, "without")


def _projected(side: OwnPart, value: int) -> bool:
    """Return whether a value follows from a projection or an earlier attention."""
    if value in side.part.given:
        return True
    made = side.part.program.needed((value,), side.part.given)
    return any(op.name in CONTRACTIONS or set(op.needs) & set(side.part.given) for op in made)


def _factor(side: OwnPart, segment: Segment) -> float | None:
    """Return the number that a segment multiplies with; None: it does more."""
    start, end = side.flow.values[segment.start], side.flow.values[segment.end]
    at = start.abs().argmax()
    size = float(start.flatten()[at])
    if size == 0:
        return None
    factor = float(end.flatten()[at]) / size
    gap = float((start * factor - end).abs().max())
    return factor if gap <= _ALIKE * float(end.abs().max()) else None


def _equal(factor: float, size: int) -> str:
    for name, value in {f"√{size}": size**0.5, f"1/√{size}": size**-0.5}.items():
        if abs(factor - value) <= 1e-3 * value:
            return f" = {name}"
    return ""


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu (tanh)": lambda x: F.gelu(x, approximate="tanh"),
    "gelu (sigmoid, 1.702)": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": F.relu,
    "silu": F.silu,
    "relu²": lambda x: F.relu(x).square(),
    "leaky relu": F.leaky_relu,
    "elu": F.elu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "mish": F.mish,
    "none": lambda x: x,
}


def activation(side: OwnPart) -> Iterator[Edit]:
    """Propose another activation function."""
    covered: set[int] = set()
    for segment in sorted(side.flow.segments, key=lambda segment: -len(segment.operations)):
        made = [value for op in segment.operations for value in op.defines]
        if segment.projects or not covered.isdisjoint(made):  # such as the tanh inside a gelu
            continue
        x, y = side.flow.values[segment.start], side.flow.values[segment.end]
        own = next((n for n, f in _ACTIVATIONS.items() if n != "none" and _same(f(x), y)), None)
        if own is None:
            continue
        covered.update(made)
        for name, function in _ACTIVATIONS.items():
            if name != own:
                first, second = (own, name) if side.mends else (name, own)
                text = f"activation {first} where the reference has {second}"
                yield side.instead(segment, function, "activation", text, name)


def _same(first: Tensor, second: Tensor) -> bool:
    return float((first - second).abs().max()) <= _ALIKE * max(float(second.abs().max()), 1e-30)


def dropout_around(side: OwnPart) -> Iterator[Edit]:
    """Propose that dropout is not active: that it returns what it receives."""
    drops = [op for op in side.flow.operations if "dropout" in op.name and _drops(side, op)]
    if not drops:
        return
    passed = [passing(op, side.flow.operands(op)[0]) for op in drops]
    what = ", ".join(f"p = {_share(op):g}" for op in drops)
    who, other = ("candidate", "reference") if side.mends else ("reference", "candidate")
    yield side.edited(
        "dropout", f"dropout ({what}) is active in the {who} and not in the {other}", *passed
    )


def _drops(side: OwnPart, op: Operation) -> bool:
    operands = side.flow.operands(op)
    if len(operands) != 1:
        return False
    return not torch.equal(side.flow.values[operands[0]], side.flow.values[op.defines[0]])


def _share(op: Operation) -> float:
    numbers = [each for each in (*op.args, *op.kwargs.values()) if isinstance(each, float)]
    return numbers[0] if numbers else 0.5


def rewired(side: OwnPart) -> Iterator[Edit]:
    """Propose that a norm receives another value of the residual stream: blocks in parallel."""
    stream = _stream(side)
    for segment in norm_segments(side):
        if segment.start not in stream:
            continue
        norm, last = as_function(side, segment), segment.operations[-1]
        for value in stream:
            if value >= segment.start:
                continue
            text = f"{described(side, segment)} receives"
            late, early = "what the residual addition made", "what came before that addition"
            first, second = (late, early) if side.mends else (early, late)
            text = f"{text} {first} where the reference gives it {second}"
            edit = replaced(last, value, norm)
            yield side.edited("residual-place", text, edit, at=segment.place, way="earlier")


def _stream(side: OwnPart) -> list[int]:
    """Return the values that are added to, and the sums."""
    found: list[int] = []
    for op in side.flow.operations:
        operands = side.flow.operands(op)
        if op.name.strip("_") in _ADDS and len(set(operands)) == 2:
            found += [*operands, op.defines[0]]
    return list(dict.fromkeys(found))


def piece_missing(side: OwnPart) -> Iterator[Edit]:
    """Propose any other piece left out: an output projection, a whole feed-forward."""
    if side.scene.stage in {"q", "k", "v"}:
        return
    for segment in side.flow.segments:
        if not segment.parameters:
            continue
        names = ", ".join(dict.fromkeys(n.rpartition(".")[0] for n in segment.parameters))
        if side.mends:
            text = f"{names} applied where the reference has nothing"
        else:
            text = f"{names} left out"
        yield side.without(segment, "piece-missing", text, "")
