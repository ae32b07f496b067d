"""The mask of one sample is changed: only what that sample may see may change, in all heads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.checks.masking.hides import Hide
from attnscope.checks.masking.seen import Seen, seen_by
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject import names as habits
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["ForeignMask", "foreign_masks"]

_MOST = 3
"""Samples whose masks are changed, one at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class ForeignMask:
    """A call in which the mask of one sample hides keys of others.

    changed: the sample whose mask was changed; others: pairs (sample, head) of other samples that
    see something else then; own: heads of the sample itself that see just what they saw.
    """

    seen: Seen
    changed: int
    others: tuple[tuple[int, int], ...]
    own: tuple[int, ...]


@probe
def foreign_masks(subject: Subject) -> list[ForeignMask]:
    """Change the masks of single samples and look at what the calls hide, without running them.

    Raises:
        Skipped: there are not two samples, or nothing among the inputs that makes a mask.
    """
    stream = subject.roles.main
    batch = stream.batch(subject.given) if stream is not None else 0
    if batch < 2:
        raise Skipped(f"the batch has {batch} samples: give inputs with two or more")
    trials = [(s, v) for s in range(min(batch, _MOST)) if (v := _changed(subject, s))]
    if not trials:
        raise Skipped("no input makes a mask of its own for each sample")
    found = []
    for call in subject.calls:
        seen = seen_by(subject, call)
        if call.batch % batch or not (seen.hides or seen.late):
            continue
        one = next(_of_call(subject, seen, batch, trials), None)
        if one is not None:
            found.append(one)
    return found


def _of_call(
    subject: Subject, seen: Seen, batch: int, trials: list[tuple[int, dict[int, Tensor]]]
) -> Iterator[ForeignMask]:
    hides = [hide for hide in (*seen.hides, *seen.late) if hide.value is not None]
    wanted = [hide.value for hide in hides if hide.value is not None]
    before = _hidden(seen, hides, {})
    if before is None or not wanted:
        return
    for sample, values in trials:
        try:
            made = subject.base.tape.run(wanted, values, wide=False)
        except UNREADABLE:
            return
        after = _hidden(seen, hides, made)
        if after is None:
            return
        rows = (before != after).any(-1)  # (batch, heads, queries)
        rows = rows.unflatten(0, (batch, -1))  # beams, or windows, of each sample
        others = rows.any(1).any(-1)
        others[sample] = False
        own = ~rows[sample].all(0).all(-1)
        if bool(others.any()) and bool(own.any()):
            pairs = tuple((int(b), int(h)) for b, h in others.nonzero())
            yield ForeignMask(seen, sample, pairs, tuple(int(h) for h in own.nonzero()[:, 0]))


def _hidden(seen: Seen, hides: list[Hide], values: dict[int, Tensor]) -> Tensor | None:
    """Return what is hidden before the softmax or taken away behind it."""
    hidden = seen.hidden_with(values)
    try:
        for hide in hides:
            if hide in seen.late and hidden is not None and hide.value is not None:
                hidden = hidden | seen.part(hide, values.get(hide.value))
    except (RuntimeError, ValueError):
        return None
    return hidden


def _changed(subject: Subject, sample: int) -> dict[int, Tensor]:
    """Return the opposite of what one sample's mask inputs say."""
    given: Given = subject.given
    found = {}
    for name, tensor in given.tensors():
        axis = subject.roles.batch_axes.get(name)
        value = subject.input_value(name)
        if axis is None or value is None or sample >= tensor.shape[axis]:
            continue
        row = tensor.select(axis, sample)
        other = _opposite(subject, name, tensor, row)
        if other is None:
            continue
        whole = tensor.detach().clone()
        whole.select(axis, sample).copy_(other)
        found[value] = whole
    return found


def _opposite(subject: Subject, name: str, tensor: Tensor, row: Tensor) -> Tensor | None:
    padding = next((p for p in subject.roles.padding if p.name == name), None)
    if padding is not None and padding.meaning == "pad" and padding.pad_id is not None:
        real = tensor[tensor != padding.pad_id]
        if not real.numel():
            return None
        plain = torch.full_like(row, int(real.flatten()[0]))
        return torch.where(row == padding.pad_id, plain, torch.full_like(row, padding.pad_id))
    if tensor.dtype == torch.bool:
        return ~row
    if (padding is not None and padding.meaning == "lengths") or habits.is_lengths(name):
        return (tensor.max() - row).to(tensor.dtype)
    beside = subject.roles.stream(name) is None  # edges of a graph, say
    is_mask = habits.is_mask(name) or padding is not None or beside
    if is_mask and bool(((tensor == 0) | (tensor == 1)).all()):
        return 1 - row
    main = subject.roles.main
    return None if main is None or name == main.name else _regrouped(tensor, row)


def _regrouped(tensor: Tensor, row: Tensor) -> Tensor | None:
    """Return whole numbers that say of other tokens of a row that they belong together.

    Documents, segments and groups make a mask by being equal, so that renaming them says the same.
    """
    if tensor.is_floating_point() or tensor.is_complex() or row.dim() != 1:
        return None
    known: Tensor = tensor.unique()
    if not 1 < len(known) < tensor.numel():
        return None
    at = torch.arange(len(row), device=row.device)
    together = row[:, None] == row
    for other in (known[at % 2], known[(at * 2 >= len(row)).long()]):
        if not torch.equal(other[:, None] == other, together):
            return other
    return None
