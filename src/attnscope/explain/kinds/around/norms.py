"""Norms that are missing or stand at another place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.explain.change import Change
from attnscope.explain.kinds.around.finding_norms import (
    as_function,
    count_norms,
    described,
    norm_segments,
)
from attnscope.explain.kinds.around.rewriting import after, before, passing, with_operand
from attnscope.explain.kinds.around.sides import Edit, OwnPart
from attnscope.explain.reading.flow import CONTRACTIONS
from attnscope.explain.reading.levels import Level, levels
from attnscope.explain.reading.rotations import read_rotation
from attnscope.explain.reading.slack import slack_of
from attnscope.explain.scene import Scene

__all__ = ["norm_missing", "norm_moved", "norm_turned", "unnormed_input"]

_T = TypeVar("_T")
_LAYER = re.compile(r"\.\d+\.")


def norm_missing(side: OwnPart) -> Iterator[Edit]:
    """Propose a norm left out; where both sides have as many, it stands elsewhere."""
    inside = side.scene.stage in {"q", "k", "v"}
    elsewhere = side.other is not None and count_norms(side.part) == count_norms(side.other)
    for segment in norm_segments(side):
        what, way = described(side, segment), " ".join(sorted(segment.names))
        text = f"{what} applied where the reference has none" if side.mends else f"{what} missing"
        if inside:
            yield side.without(segment, "qk-norm", f"{side.scene.stage}: {text}", way)
        elif elsewhere:
            yield side.without(segment, "norm-place", f"{text}; {_placement(side)}", way)
        else:
            yield side.without(segment, "norm-missing", text, way)
    yield from _residual_before_norm(side)


def _residual_before_norm(side: OwnPart) -> Iterator[Edit]:
    """Propose that a residual addition alone receives what comes before a norm."""
    for segment in norm_segments(side):
        what, way = described(side, segment), " ".join(sorted(segment.names))
        users = [op for op in side.flow.operations if segment.end in op.values()]
        for op in users if len(users) > 1 else ():  # of one it would be missing
            if not _is_addition(side, op):
                continue
            after_it, before_it = f"what comes after {what}", "what comes before it"
            first, second = (after_it, before_it) if side.mends else (before_it, after_it)
            told = f"the residual addition receives {first} where the reference adds {second}"
            edited = with_operand(op, segment.end, segment.start)
            yield side.edited("norm-place", told, edited, at=segment.place, way=f"residual {way}")


def _placement(side: OwnPart) -> str:
    """Say where the norm stands on both sides, which have as many of them."""
    many = f"both have {count_norms(side.part)} norms"
    if side.scene.stage not in {"input", "input_k", "input_v"}:
        return f"{many}, so it stands at another place"
    first, second = ("before", "after") if side.mends else ("after", "before")
    return (
        f"{many}: the candidate normalises {first} the attention where the reference normalises "
        f"{second} it"
    )


def norm_moved(side: OwnPart) -> Iterator[Edit]:
    """Propose a norm that stands at another place of the same stage."""
    places = [(*place, rank) for place, rank in _ranked(_places(side), lambda place: place[2])]
    for segment, rank in _ranked(norm_segments(side), lambda segment: segment.place):
        last = segment.operations[-1]
        norm, what = as_function(side, segment), described(side, segment)
        dropped = passing(last, segment.start)
        users = [each for each in side.flow.operations if segment.end in each.needs]
        now = _where(side, users[0]) if users else "at the end"
        for op, operand, where, other in places:
            if op in segment.operations or operand == segment.end:
                continue
            moved = after(op, norm) if operand is None else before(op, operand, norm)
            first, second = (now, where) if side.mends else (where, now)
            text = f"{what} stands {first} where the reference has it {second}"
            way = _LAYER.sub(".#.", where) if rank == other else ""
            yield side.edited("norm-place", text, dropped, moved, at=segment.place, way=way)


def _ranked(things: Iterable[_T], name: Callable[[_T], str]) -> Iterator[tuple[_T, int]]:
    """Number things that differ by the layer alone, so that those of one layer meet."""
    counts: dict[str, int] = {}
    for thing in things:
        alike = _LAYER.sub(".#.", name(thing))
        counts[alike] = counts.get(alike, -1) + 1
        yield thing, counts[alike]


def _places(side: OwnPart) -> Iterator[tuple[Operation, int | None, str]]:
    """Iterate over where a norm may stand: operation, operand (None: its result), in words."""
    for op in side.flow.operations:
        operands = list(dict.fromkeys(side.flow.operands(op)))
        if _is_addition(side, op):
            yield op, None, f"after the residual addition{_line(op)}"
            for operand in operands:
                yield op, operand, f"on one operand of the residual addition{_line(op)}"
        elif op.name in CONTRACTIONS and len(operands) == 1:
            yield op, operands[0], _where(side, op)


def _where(side: OwnPart, op: Operation) -> str:
    if op.name in CONTRACTIONS:
        names = side.flow.parameters_of((op,))
        return f"before {names[0] if names else 'a projection'}"
    if _is_addition(side, op):
        return f"on one operand of the residual addition{_line(op)}"
    return f"before {op.name}{_line(op)}"


def _is_addition(side: OwnPart, op: Operation) -> bool:
    operands = set(side.flow.operands(op))
    return op.name.strip("_") in {"add", "iadd", "radd"} and len(operands) > 1


def _line(op: Operation) -> str:
    return "" if op.source is None else f" in line {op.source.line}"


def unnormed_input(scene: Scene) -> Iterator[Change]:
    """Propose that one projection receives what comes before the norm, or after one."""
    part, made = scene.reference.parts.get(scene.stage), scene.reference.parts.get("input")
    if scene.stage not in {"q", "k", "v"} or part is None or made is None or part.origin is None:
        return
    side = OwnPart(scene, made, mends=False)
    received = part.given.get(part.origin)
    for segment in norm_segments(side):
        tensor = side.flow.values[segment.start]
        if received is None or tensor.shape != received.shape:
            continue
        yield Change(
            "norm-place",
            f"{scene.stage} is computed from what comes before {described(side, segment)}, where "
            "the reference computes it from what comes after",
            lambda tensor=tensor: part.run(given={part.origin or 0: tensor}),  # type: ignore[misc]
        )


def norm_turned(scene: Scene) -> Iterator[Change]:
    """Propose a norm of q or k on the other side of the rotary embedding."""
    part = scene.reference.parts.get(scene.stage)
    if scene.stage not in {"q", "k"} or part is None:
        return
    way = [level for level in levels(scene.expected, part) if level.value is not None]
    for at, middle in enumerate(way):
        if middle.tensor.shape == scene.expected.shape and torch.equal(
            middle.tensor, scene.expected
        ):
            continue  # nothing follows that could be done first
        for first in way[at + 1 :]:
            turns = read_rotation(middle.tensor, scene.expected, slack_of(scene))
            here, there = ("after", "before") if turns is not None else ("before", "after")
            yield Change(
                "norm-place",
                f"{scene.stage} is normalised {here} the rotary embedding, where the reference "
                f"normalises it {there}",
                lambda first=first, middle=middle: _swapped(first, middle),  # type: ignore[misc]
            )


def _swapped(first: Level, middle: Level) -> Tensor:
    """Do what follows the middle level first, then what leads to it."""
    flow, start, end = first.flow, first.value, middle.value
    turned = middle.onward(first.tensor)
    if flow is None or start is None or end is None:  # not so for levels of a part
        return turned
    if first.layout is None or middle.layout is None:
        return turned
    made = flow.run(given={start: first.layout.write(turned)}, wanted=end)
    return middle.layout.read(made, tuple(first.tensor.shape))
