"""Where a way of decoding goes wrong: the step and the full pass, each run once under watch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.caller import line_of_call
from attnscope.checks.decoding.departure import Departure
from attnscope.checks.decoding.keeping import line_of_idle, line_of_state
from attnscope.checks.decoding.matching import Stretch
from attnscope.checks.decoding.pairing import Parting
from attnscope.checks.decoding.parting import first_parting
from attnscope.checks.decoding.turning_caller import line_of_caller, line_that_hands
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.caches import RESETS, fresh, reset_of
from attnscope.differ.sides.side import Side
from attnscope.differ.sides.subject import Subject as Watched

__all__ = ["line_left_behind", "parting_of", "runs_of"]

_EMPTYING = (*RESETS, "clear", "empty")
"""Methods that empty what an object keeps."""

_DEEPEST = 3
"""Containers in containers that are looked into."""


def runs_of(subject: Subject, found: Departure) -> tuple[Side, Side, Stretch] | None:
    """Return the full pass and the step that departs, under watch, and which tokens it has."""
    stepper = found.stepper
    if stepper is None:
        return None
    ends = list(found.ends)

    def run() -> tuple[Side, Side, Stretch] | None:
        full, step = stepper.watched_whole(), stepper.watched_step(ends, found.step)
        if full.error is not None or step.error is not None:
            return None
        stream = stepper.stream
        start, stop = ends[found.step], ends[found.step + 1]
        length, batch = stream.length(subject.given), stream.batch(subject.given)
        return full, step, Stretch(start, stop, length, batch)

    return subject.once(("cached runs", found.way), run)


def parting_of(subject: Subject, found: Departure) -> Parting | None:
    """Return where a way of decoding parts from the full pass."""
    runs, stepper = runs_of(subject, found), found.stepper
    if runs is None or stepper is None:
        return None
    full, step, _ = runs
    place, right = first_parting(*runs)
    if place is None or place.made is None:
        return place
    if place.handed:
        line = line_of_call(subject, _module_of(step, place.made))
        return replace(place, line=line or place.line)
    run = stepper.whole if place.in_full else stepper.ready(list(found.ends), found.step)
    if place.kept is not None:
        line = line_that_hands(run, step, place.made, place.kept)
        return replace(place, line=line or place.line)
    numbers = _everything(full, place.made) if place.in_full else right
    line = line_of_caller(run, full if place.in_full else step, place.made, numbers)
    return replace(place, line=line or place.line)


def _module_of(side: Side, operation: Operation) -> str:
    """Return the path of the module whose keys or values an operation makes; "" where none is."""
    for located in side.located:
        ends = tuple(value for name in ("k", "v") for value, _ in located.spots.get(name, []))
        if operation in side.tape.program.needed(ends, {}):
            return located.call.module
    return ""


def _everything(side: Side, operation: Operation) -> set[int]:
    """Return the numbers of all operations but one: in a full pass, they are right."""
    return {at for at, each in enumerate(side.tape.operations) if each is not operation}


def line_left_behind(subject: Subject) -> Source | None:
    """Return the line that should empty what a module keeps, or that fills it.

    A module is run and reset; the attributes that hold tensors then, and did not before, are what
    is left behind, in modules and in objects of the author's that they hold.
    """
    side = fresh(Watched(subject.name, subject.run))
    if side.model is None:
        return None
    before = {path: _held(owner) for path, owner in _owners(side.model)}
    with torch.no_grad():
        subject.given.call(side.model)
    for module in side.model.modules():
        reset = reset_of(module)
        if reset is not None:
            reset()
    for path, owner in _owners(side.model):
        known = before.get(path, {})
        left = {name for name, count in _held(owner).items() if count > known.get(name, 0)}
        line = _line_of_left(type(owner), left) if left else None
        if line is not None:
            return line
    return None


def _line_of_left(owner: type, left: set[str]) -> Source | None:
    """Return where some attributes should be emptied: in a method that does, or else is to do so.

    Without any such method it is where they are filled.
    """
    emptied = line_of_state(owner, left, _EMPTYING) or line_of_idle(owner, _EMPTYING)
    return emptied or line_of_state(owner, left, ("forward",))


def _owners(model: nn.Module) -> Iterator[tuple[str, object]]:
    """Iterate over the modules, and over plain objects that they hold, with their paths."""
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            plain = hasattr(value, "__dict__") and not callable(value)
            if plain and not isinstance(value, Tensor | nn.Module | type):
                yield f"{path}.{name}", value
        yield path, module


def _held(owner: object) -> dict[str, int]:
    """Return how many entries of tensors that are not zero each attribute holds."""
    buffers = owner.named_buffers(recurse=False) if isinstance(owner, nn.Module) else ()
    named = (*vars(owner).items(), *buffers)
    return {name: _count(value, 0) for name, value in named}


def _count(value: Any, depth: int) -> int:
    if isinstance(value, nn.Parameter | nn.Module):
        return 0
    if isinstance(value, Tensor):
        return int(value.count_nonzero())
    if depth > _DEEPEST or not isinstance(value, dict | list | tuple):
        return 0
    items = value.values() if isinstance(value, dict) else value
    return sum(_count(each, depth + 1) for each in items)
