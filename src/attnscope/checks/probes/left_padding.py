"""A sample that is padded on the left, against the same sample without its padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Padding
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import alone, along, other_tokens
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.side import Side
from attnscope.errors import AttnscopeError

__all__ = ["LeftPadding", "left_padding"]


@dataclass(frozen=True, slots=True)
class LeftPadding:
    """What differs for one sample with `pads` padded tokens on the left.

    received: how far what the first attention gets differs at real tokens, relative to its largest
    entry; output: how far the output differs there; noise: what is rounding in it. reads_padding:
    how far the output moves when the padded tokens are others (0.0 where they can't be others).
    """

    sample: int
    pads: int
    received: float
    output: float
    noise: float
    reads_padding: float


@probe
def left_padding(subject: Subject) -> LeftPadding:
    """Run a left-padded sample of the given inputs without its padding.

    Raises:
        Skipped: no sample is padded on the left, or it can't be told which tokens are.
    """
    padding = _padding(subject)
    real = padding.real(subject.given)
    samples = _left_padded(real)
    if not samples:
        raise Skipped("no sample of the inputs is padded on the left: give inputs with one")
    found = [_compared(subject, padding, real, sample) for sample in samples]
    return max(found, key=lambda each: each.received)


def _compared(subject: Subject, padding: Padding, real: Tensor, chosen: int) -> LeftPadding:
    """Run one sample without its padding."""
    pads = int((~real[chosen]).sum())
    shorn = subject.watched(_without(subject, chosen, pads, {padding.stream.name}))
    if shorn.error is not None:  # others run along with it, token by token
        shorn = subject.watched(_without(subject, chosen, pads, _alongside(subject, padding)))
    if shorn.error is not None:
        raise Skipped("the model raises for a sample without its padding")
    if not subject.base.located or not shorn.located:
        raise Skipped("no attention was seen whose values can be read")
    full = _values(subject.base.located[0], chosen)[:, pads:]
    short = _values(shorn.located[0], 0)
    if full.shape != short.shape:
        raise Skipped("attention has other tokens than the inputs, so that none can be compared")
    size = max(float(full.abs().max()), 1e-12)
    before, after = _row(subject, subject.output, chosen, pads), _only(subject, shorn)
    gap = float((before - after).abs().max()) if before.shape == after.shape else 0.0
    return LeftPadding(
        chosen,
        pads,
        float((full - short).abs().max()) / size,
        gap,
        4 * subject.noise,
        _reads_padding(subject, padding, real, chosen, pads),
    )


def _padding(subject: Subject) -> Padding:
    found = subject.roles.padding_of(subject.roles.main)
    if found is None or not found.given or found.meaning == "lengths":
        raise Skipped(
            "nothing says which tokens are padding: declare expect padding, such as "
            '"attention_mask keep"'
        )
    return found


def _left_padded(real: Tensor) -> list[int]:
    """Return the samples with most and with least padding on the left, and none elsewhere."""
    pads = [int((~row).sum()) for row in real]
    fits = [
        sample
        for sample, row in enumerate(real)
        if 0 < pads[sample] <= len(row) - 2 and bool(row[pads[sample] :].all())
    ]
    ordered = sorted(fits, key=lambda sample: pads[sample])
    return list(dict.fromkeys([*ordered[-1:], *ordered[:1]]))


def _alongside(subject: Subject, padding: Padding) -> set[str]:
    """Return the streams that are as long as a padded one, and have no padding of their own."""
    padded = {each.stream.name for each in subject.roles.padding} - {padding.stream.name}
    own, given = padding.stream, subject.given
    return {
        each.name
        for each in subject.roles.streams
        if each.length(given) == own.length(given) and each.memory == own.memory
    } - padded


def _without(subject: Subject, sample: int, pads: int, streams: set[str]) -> Given:
    """Return the inputs of one sample without the first tokens of some streams."""
    given = alone(subject, sample)
    axes = subject.roles.length_axes

    def shorn(name: str, tensor: Tensor) -> Tensor:
        for axis, stream in axes.get(name, {}).items():
            if stream in streams:
                tensor = tensor.narrow(axis, pads, tensor.shape[axis] - pads)
        return tensor.clone()

    return given.mapped(shorn)


def _values(located: Located, sample: int) -> Tensor:
    """Return v of one sample, (kv heads, keys, value_dim): no rotation turns it."""
    try:
        values = located.call.v
    except (AttnscopeError, RuntimeError) as error:
        raise Skipped("the values of the first attention can't be read") from error
    return values[sample].detach().double()


def _row(subject: Subject, output: Tensor, sample: int, pads: int) -> Tensor:
    samples, tokens = along(subject, output)
    if samples is None:
        return output
    row = output.select(samples, sample)
    if tokens is None:
        return row
    axis = tokens - (samples < tokens)
    return row.narrow(axis, pads, row.shape[axis] - pads)


def _only(subject: Subject, side: Side) -> Tensor:
    """Return the main output of the one sample that was run."""
    output = next(iter(side.outputs.values())).detach()
    samples, _ = along(subject, subject.output)
    return output if samples is None else output.select(samples, 0)


def _reads_padding(
    subject: Subject, padding: Padding, real: Tensor, sample: int, pads: int
) -> float:
    """Return how far a sample's output moves when its padded tokens are others."""
    if padding.meaning == "pad":
        return 0.0
    where = torch.zeros_like(real)
    where[sample, :pads] = True
    try:
        output = subject.main_output(other_tokens(subject, padding.stream, where))
    except Skipped:
        return 0.0
    moved = _row(subject, output, sample, pads) - _row(subject, subject.output, sample, pads)
    return float(moved.abs().max())
