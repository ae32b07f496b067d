"""Residual additions, factors, activations and dropout between one attention and the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attnscope.calls.program import Operation
from attnscope.explain.kinds.around.factors import is_embedded, is_projected
from attnscope.explain.kinds.around.finding_norms import as_function, described, norm_segments
from attnscope.explain.kinds.around.rewriting import before, passing, replaced, with_operand
from attnscope.explain.kinds.around.sides import Edit, OwnPart
from attnscope.explain.reading.flow import CONTRACTIONS

__all__ = [
    "activation",
    "dropout_around",
    "piece_missing",
    "residual",
    "rewired",
]

_ADDS = frozenset("add iadd radd".split())
_SHIFTS = frozenset("add iadd radd sub isub".split())
_ALIKE = 1e-9
"""Share of the largest entry up to which tensors of runs in float64 are the same."""


def residual(side: OwnPart) -> Iterator[Edit]:
    """Propose a residual addition left out or done twice, on either operand."""
    for op in side.flow.operations:
        operands = list(dict.fromkeys(side.flow.operands(op)))
        if op.name.strip("_") not in _ADDS or len(operands) != 2:
            continue
        shapes = {side.flow.values[value].shape for value in operands}
        if len(shapes) != 1:
            continue
        if not any(is_projected(side, value) for value in operands) and any(
            is_embedded(side, value) for value in operands
        ):
            continue  # embeddings are added up
        stream, branch = sorted(operands, key=lambda value: (len(_behind(side, value)), value))
        follows = _behind(side, stream) <= _behind(side, branch)
        additions = _additions if follows else _parallel
        for key, text, edited, at in additions(side, op, stream, branch):
            where = _place(side, op, at)
            yield side.edited(key, f"{text} {where}", edited, at=where, way=text)


def _parallel(
    side: OwnPart, op: Operation, *branches: int
) -> Iterator[tuple[str, str, Operation, int]]:
    """Iterate over what may be done where two branches are added, neither made of the other."""
    for branch, other in (branches, branches[::-1]):
        if side.mends:
            text = "a branch added where the reference has none,"
            yield "residual-doubled", text, passing(op, other), branch
        else:
            yield "residual-missing", "branch missing", passing(op, other), branch
            yield "residual-doubled", "branch added twice", before(op, branch, _twice), branch
            yield "residual-sign", "branch subtracted", before(op, branch, torch.neg), branch


def _additions(
    side: OwnPart, op: Operation, stream: int, branch: int
) -> Iterator[tuple[str, str, Operation, int]]:
    """Iterate over what may be done at one residual addition: key, text, operation, branch."""
    alone, skipped = passing(op, branch), passing(op, stream)
    if side.mends:
        yield "residual-doubled", "residual added where the reference has none,", alone, branch
        yield "residual-doubled", "a branch added where the reference has none,", skipped, branch
    else:
        yield "residual-missing", "residual missing: only the branch goes on", alone, branch
        yield "residual-missing", "branch missing: only the residual goes on", skipped, branch
        yield "residual-doubled", "residual added twice", before(op, stream, _twice), branch
        yield "residual-doubled", "branch added twice", before(op, branch, _twice), branch
        yield "residual-sign", "branch subtracted", before(op, branch, torch.neg), branch
    first, second = ("before", "after") if side.mends else ("after", "before")
    for value in _starts(side, op, stream):
        text = (
            f"the residual addition receives what comes {first} the norm of the branch, where the "
            f"reference adds what comes {second} it,"
        )
        yield "norm-place", text, with_operand(op, stream, value), branch


def _twice(tensor: Tensor) -> Tensor:
    return 2 * tensor


def _behind(side: OwnPart, value: int) -> frozenset[int]:
    """Return the products with matrices that a value follows from, in the whole run.

    A branch follows from its stream, so it has all products behind it that the stream has; what the
    part is given instead of computing it is looked behind.
    """
    made = side.part.program.needed((value,), {})
    return frozenset(op.defines[0] for op in made if op.name in CONTRACTIONS)


def _starts(side: OwnPart, end: Operation, stream: int) -> Iterator[int]:
    """Iterate over what is made of a stream before an addition to it, as large as it is.

    They are looked for in the whole run, since the part may not contain the branch.
    """
    program, known = side.part.program, side.part.parameters.keys()
    before = side.flow.values[stream]
    shape = tuple(before.shape)
    reached = {stream: shape}
    for op in program.operations:
        if op.name in CONTRACTIONS or reached.keys().isdisjoint(op.values()):
            continue
        if op.name.strip("_") not in _ADDS or len(set(op.values()) - known) == 1:
            reached.update(zip(op.defines, op.shapes, strict=False))
    early = (value for value in reached if value < end.defines[0])
    alike = [value for value in early if reached[value] == shape]
    for value, tensor in program.run(alike, side.part.given).items():
        if not torch.equal(tensor, before):
            yield value


def _place(side: OwnPart, op: Operation, branch: int) -> str:
    """Return where an addition stands: after the product that the branch ends in."""
    made = side.part.program.needed((branch,), {})
    last = next((each for each in reversed(made) if each.name in CONTRACTIONS), None)
    names = side.flow.parameters_of((last,)) if last is not None else ()
    where = f"after {names[0].rpartition('.')[0]}" if names else "around a block"
    return where if op.source is None else f"{where} (line {op.source.line})"


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
        if segment.names <= _SHIFTS:
            done = "subtracted" if "sub" in " ".join(segment.names) else "added"
            told = f"{', '.join(segment.parameters)} {done} after the projection"
            if side.mends:
                told = f"{told} where the reference does not"
            else:
                told = f"{told} by the reference alone"
            yield side.without(segment, "projection-bias", told, "")
            continue
        names = ", ".join(dict.fromkeys(n.rpartition(".")[0] for n in segment.parameters))
        if side.mends:
            text = f"{names} applied where the reference has nothing"
        else:
            text = f"{names} left out"
        yield side.without(segment, "piece-missing", text, "")
