"""One sample of the batch is changed: no other one may move."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attnscope.checks.comparing import gap_along
from attnscope.checks.influence import Allowed
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along, other_tokens, with_other_sample

__all__ = ["BatchMates", "batch_mates"]


@dataclass(frozen=True, slots=True)
class BatchMates:
    """Outputs of the other samples, when one sample is another one.

    changed: the sample that was replaced; largest: how far others moved at most; moved: how many of
    them, out of `others`, by more than `noise`; own: how far the changed sample itself moved.
    token_reach: how far other tokens of a sample move when one of its tokens is changed; None where
    none can be told.
    """

    stream: Stream
    changed: int
    largest: float
    moved: int
    own: float
    noise: float
    token_reach: float | None

    others: int = 0
    rows: int = 1

    @property
    def leaks(self) -> bool:
        """Whether a sample depends on its batch mates."""
        return self.moved > 0

    def allowed(self, subject: Subject) -> Allowed:
        """Return which samples may move."""
        rows = torch.arange(self.stream.batch(subject.given))
        return Allowed(rows // self.rows == self.changed // self.rows)


@probe
def batch_mates(subject: Subject) -> BatchMates:
    """Replace a sample and compare the outputs of all others, in eval mode.

    The last one, and where none moves the first: under a causal mask the last reaches nobody.

    Raises:
        Skipped: there is no batch of two samples, or the output has no axis of samples.
    """
    stream = subject.roles.main
    if stream is None:
        raise Skipped("no input is a sequence: give inputs that are")
    batch = stream.batch(subject.given)
    if stream.batch_axis is None or batch < 2:
        raise Skipped(f"the batch has {batch} sample: give inputs with two or more")
    axis, tokens = along(subject, subject.output)
    if axis is None:
        raise Skipped("the output has no axis of samples, so that none can be said to move")
    reach, rows = _token_reach(subject, stream, axis, tokens), _rows_of_a_sample(subject, stream)
    for changed in (batch - 1, 0):
        after = subject.main_output(with_other_sample(subject, changed))
        gap = gap_along(subject.output, after, axis)
        first = changed - changed % rows
        own, others = float(gap[changed]), torch.cat((gap[:first], gap[first + rows :]))
        moved, largest = int((others > subject.noise).sum()), float(others.max())
        found = BatchMates(
            stream, changed, largest, moved, own, subject.noise, reach, batch - rows, rows
        )
        if found.leaks:
            break
    return found


def _rows_of_a_sample(subject: Subject, stream: Stream) -> int:
    """Return how many rows of a sequence are one sample.

    They share one row of a mask (samples, length), or the model takes rows that lie beside each
    other for one: codebooks of a sound, frames of a video.
    """
    batch, length = stream.batch(subject.given), stream.length(subject.given)
    for name in subject.roles.masks:
        shape = tuple(subject.given.values[name].shape)
        if len(shape) == 2 and shape[1] == length and 1 < shape[0] < batch:
            return batch // shape[0] if batch % shape[0] == 0 else 1
    return _rows_taken_apart(subject, stream)


def _rows_taken_apart(subject: Subject, stream: Stream) -> int:
    """Return into how many rows the model itself splits the axis of a sequence's rows; 1: never."""
    tape, batch = subject.base.tape, stream.batch(subject.given)
    start = subject.input_value(stream.name)
    if start is None or stream.batch_axis != 0:
        return 1
    reached = {start}
    for operation in tape.operations:
        if reached.isdisjoint(operation.values()):
            continue
        reached.update(operation.defines)
        before = tape.tensors[next(iter(operation.values()))].shape
        if operation.name in _SPLITS and before[:1] == (batch,):
            samples, rows, *_ = (*operation.shapes[0], 1, 1)
            if samples * rows == batch and 1 < rows < batch:
                return rows
    return 1


_SPLITS = frozenset("view reshape unflatten view_as reshape_as".split())


def _token_reach(subject: Subject, stream: Stream, axis: int, tokens: int | None) -> float | None:
    """Change the first token of the first sample: how far do its other tokens move?"""
    length = stream.length(subject.given)
    if tokens is None or length < 2:
        return None
    where = torch.zeros(stream.batch(subject.given), length, dtype=torch.bool)
    where[0, 0] = True
    before = subject.output.select(axis, 0)
    after = subject.main_output(other_tokens(subject, stream, where)).select(axis, 0)
    gap = gap_along(before, after, tokens - (axis < tokens))
    reach = float(gap[1:].max())
    return reach if reach > subject.noise else 0.0
