"""Arguments are given other values: does any output react?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnscope.checks.comparing import gap_of
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject import names as habits
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.subject import Subject

__all__ = ["Toggled", "other_values", "toggled_arguments"]

_NUMBERS = re.compile(
    r"window|(soft)?cap|scale|sink|temperature|num_valid|n_valid|valid_len|prefix"
)
_NEVER = re.compile(r"^(output_|return_|use_|need_)|dropout|^max_|label|head_mask|^training$")


@dataclass(frozen=True, slots=True)
class Toggled:
    """One argument: how many other values it was given, and how far any output moved at most."""

    name: str
    values: int
    largest: float

    @property
    def ignored(self) -> bool:
        """Whether nothing reacts to it."""
        return self.largest == 0.0


@probe
def toggled_arguments(subject: Subject) -> list[Toggled]:
    """Give masks, lengths, positions, documents and numbers of attention other values.

    An argument that can't be changed without an error is read by something, and not in the list.

    Raises:
        Skipped: there is no such argument among the inputs.
    """
    before = subject.outputs()
    if not before:
        raise Skipped("the model returns no float tensor: return what it computes")
    if not any(bool(each.isfinite().any()) for each in before.values()):
        raise Skipped("the outputs hold no finite number, so that none can be said to move")
    found = []
    for name in subject.given.values:
        others = other_values(subject, name)
        largest = _largest(subject, name, others, before) if others else None
        if largest is not None:
            found.append(Toggled(name, len(others), largest))
    if not found:
        raise Skipped("the inputs have no mask, length, window or other such argument: give one")
    return found


def _largest(
    subject: Subject, name: str, others: list[Any], before: dict[str, Tensor]
) -> float | None:
    """Return how far any output moves at most; None: the model refuses another value."""
    largest = 0.0
    for other in others:
        try:
            after = subject.outputs(_with(subject, name, other))
            if set(after) != set(before):
                return None
            gaps = [gap_of(before[key], after[key]) for key in before]
        except Skipped:
            return None
        largest = max([largest, *(float(gap.max()) for gap in gaps if gap.numel())])
        if largest > 0.0:
            return largest
    return largest


def _with(subject: Subject, name: str, other: Any) -> Given:
    if isinstance(other, Tensor):
        return subject.given.replaced(name, other)
    return subject.given.with_values(**{name: other})


def other_values(subject: Subject, name: str) -> list[Any]:
    """Return the other values that an argument is given."""
    return list(_others(subject, name, subject.given.values[name]))


def _others(subject: Subject, name: str, value: Any) -> Iterator[Any]:
    stream = subject.roles.stream(name)
    is_main = stream is not None and stream is subject.roles.main
    if isinstance(value, Tensor) and value.layout != torch.strided:
        return
    if _NEVER.search(name.lower()) or is_main or (stream is not None and not _is_zero_one(value)):
        return
    if isinstance(value, Tensor):
        yield from _other_tensors(subject, name, value)
    elif isinstance(value, bool):
        if habits.is_causal_name(name):
            yield not value
    elif isinstance(value, (int, float)) and (
        _NUMBERS.search(name.lower()) or name in subject.expect.values()
    ):
        yield from (type(value)(each) for each in (1, 2, value + 1, value * 2) if each != value)


def _other_tensors(subject: Subject, name: str, value: Tensor) -> Iterator[Tensor]:
    """Yield what says something else: the opposite, only a beginning, only an end."""
    main = subject.roles.main
    if value.numel() < 2 or not value.dim():
        return
    if main is not None and value is subject.given.values.get(main.name):
        return
    whole = not value.is_floating_point() and value.dtype != torch.bool
    if whole and habits.is_lengths(name):
        yield (value // 2).clamp_min(1)
        yield torch.ones_like(value)
    elif habits.is_mask(name) or name == _padding_name(subject, name) or _is_zero_one(value):
        yield from _other_masks(value)
    elif whole and (habits.is_segments(name) or habits.is_positions(name)):
        yield torch.zeros_like(value)
        yield value.flip(-1)


def _other_masks(value: Tensor) -> Iterator[Tensor]:
    if value.shape[-1] < 2:  # a single key gets all weight whatever is said of it
        return
    half = torch.zeros_like(value)
    half[..., : (value.shape[-1] + 1) // 2] = 1
    if value.is_floating_point() and bool((value < 0).any()):
        yield torch.zeros_like(value)
        yield (half - 1) * 1e4
        return
    yield half
    yield 1 - half if value.dtype != torch.bool else ~half
    yield (value == 0).to(value.dtype)


def _padding_name(subject: Subject, name: str) -> str | None:
    return next((p.name for p in subject.roles.padding if p.name == name), None)


def _is_zero_one(value: Any) -> bool:
    """Return whether a tensor can be nothing but a mask: yes and no, both of them."""
    if not isinstance(value, Tensor) or value.is_complex() or value.dim() < 2:
        return isinstance(value, Tensor) and value.dtype == torch.bool
    zero, one = value == 0, value == 1
    return bool((zero | one).all()) and bool(zero.any()) and bool(one.any())
