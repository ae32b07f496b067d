"""Parameters that are added to a whole row of scores alike, so that the softmax takes them out."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from attnscope.calls.source import Source
from attnscope.checks.attributes import attribute
from attnscope.checks.course import Course, course_of
from attnscope.checks.residual.graph import behind
from attnscope.checks.subject.subject import Subject

__all__ = ["cancelling_parameters"]

_SAME = 1e-9
"""Relative to the largest entry of a context in float64: far above what its rounding leaves."""

_LOOKS_UP = frozenset("embedding getitem index_select gather take".split())


def cancelling_parameters(subject: Subject) -> Iterator[tuple[str, Source | None]]:
    """Iterate over parameters that join scores and leave the context of every call as it was.

    Left out: the bias of a layer, which comes with its weight; tables, of which short inputs may
    read one row.
    """
    model = subject.model
    if model is None:
        return
    found: dict[str, Source | None] = {}
    busy: set[str] = set()
    for call in subject.calls:
        course = course_of(subject, call)
        if course is None or call.keys < 2:
            continue
        for operation in course.hiding:
            for name, value in _joining(subject, course, course.joined(operation)):
                if name in busy or not _is_bare(model, name):
                    continue
                if _cancels(subject, course, value):
                    found.setdefault(name, operation.source)
                else:
                    busy.add(name)
    yield from ((name, source) for name, source in found.items() if name not in busy)


def _joining(subject: Subject, course: Course, joined: list[int]) -> Iterator[tuple[str, int]]:
    """Iterate over the parameters behind what joins the scores, and behind nothing else of it."""
    tape, names = subject.base.tape, subject.base.parameters
    trunk = [v for name in ("q", "k", "v") for v, _ in course.located.spots.get(name, [])]
    known = {v for op in behind(tape, trunk) for v in op.values()}
    way = behind(tape, joined)
    looked_up = {v for op in way if op.name in _LOOKS_UP for v in op.values()}
    read = {v for op in way for v in op.values()} | set(joined)
    chosen = [v for op in way for v in op.defines if not tape.tensors[v].is_floating_point()]
    choosing = {v for op in behind(tape, chosen) for v in op.values()}  # added by none of them
    for value in sorted(read - known - looked_up - choosing):
        if value in names and isinstance(tape.tensors[value], nn.Parameter):
            yield names[value], value


def _cancels(subject: Subject, course: Course, value: int) -> bool:
    """Return whether a context stays as it was, to float64's rounding, with another value."""
    tape = subject.base.tape
    spots = course.located.spots
    ends = [v for v, _ in spots["context"]]
    held = {v: tape.tensors[v].detach() for n in ("q", "k", "v") for v, _ in spots[n]}
    generator = torch.Generator().manual_seed(subject.seed + 11)
    own = tape.tensors[value].detach()
    other = own * 0.5 + torch.randn(own.shape, generator=generator).to(own.device, own.dtype)
    try:
        before = tape.run(ends, held, wide=True)
        after = tape.run(ends, {**held, value: other}, wide=True)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    gaps = ((before[v] - after[v]).abs().nan_to_num(0.0).max() for v in ends)
    largest = max(float(before[v].abs().nan_to_num(0.0, 0.0, 0.0).max()) for v in ends)
    return largest > 0.0 and max(map(float, gaps)) <= _SAME * largest


def _is_bare(model: nn.Module, name: str) -> bool:
    """Return whether a parameter is not the bias that comes with a layer's weight."""
    path, _, last = name.rpartition(".")
    return last != "bias" or attribute(model.get_submodule(path), "weight") is None
