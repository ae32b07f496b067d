"""AS502: positions are added along the wrong axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.positions.added import Added
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.positions.added import added
    from attnscope.checks.positions.single_rows import is_single_row, is_turned_over

    if subject.model is None:
        raise Skipped("a function of tensors gets its positions from outside: give the whole model")
    everything = added(subject)
    for each in everything:
        if _along_samples(each) and _is_batch(subject, each):
            yield _finding(
                subject,
                each,
                "positions are added along the batch: what is added differs between the "
                f"{each.shape[each.samples or 0]} samples, and is the same for all "
                f"{each.shape[each.tokens or 0]} tokens of a sample",
            )
        elif is_single_row(subject, each):
            yield _finding(
                subject,
                each,
                f"one row of a table of positions is added to all {each.shape[each.tokens or 0]} "
                "tokens, so that nothing tells them apart by their place",
                "Slice the table: table[:, :length], not table[:, length].",
            )
        elif (axes := is_turned_over(subject, each, everything)) is not None:
            yield _finding(
                subject,
                each,
                f"a table whose rows lie on axis {axes[0]} is added along axis {axes[1]}: the "
                f"{each.shape[axes[0]]} places of axis {axes[0]} get no positions, and those of "
                f"axis {axes[1]} get two",
                "Add the table along the axis that it was made for, without the transposition.",
            )


def _along_samples(each: Added) -> bool:
    samples, tokens = each.samples, each.tokens
    if samples is None or tokens is None:
        return False
    return (
        samples in each.axes
        and tokens not in each.axes
        and min(each.shape[samples], each.shape[tokens]) > 1
    )


def _is_batch(subject: Subject, each: Added) -> bool:
    """Return whether what attention keeps apart is the batch: else attention itself is wrong."""
    main = subject.roles.main
    return main is None or main.batch_axis is None or main.batch_axis == each.samples


def _finding(subject: Subject, each: Added, message: str, fix: str | None = None) -> Finding:
    from attnscope.checks.caller import users_line

    line = each.operation.source
    return RULE.found(
        message,
        {
            "shape": list(each.shape),
            "differs_along": list(each.axes),
            "axis_of_samples": each.samples,
            "axis_of_tokens": each.tokens,
        },
        source=users_line(subject, subject.calls[0].module, line) if line is not None else None,
        module="",
        fix=fix,
    )


RULE = Rule(
    code="AS502",
    name="position-axis",
    severity="error",
    what="Positions are added along the wrong axis: samples get them, or all tokens get one.",
    why=(
        "The model has no order, and what it returns for a sample depends on its place in the "
        "batch. Broadcasting keeps the shapes right; it raises only once a batch is longer than "
        "the table."
    ),
    fix=(
        "For (batch, length, width) add table[: x.size(1)], with the length on axis 1; x.size(0) "
        "belongs to (length, batch, width)."
    ),
    proof=(
        "Additions in front of attention are read from the recorded run: what is added depends on "
        "no input, differs along the axis that attention keeps apart (the samples), and is the "
        "same along the axis that it runs over (the tokens)."
    ),
    limits=(
        "Which axis holds the tokens follows from what attention runs over, by its size; where "
        "batch and length are equal it must be declared. Vectors for a time step, a class or a "
        "layer are left alone."
    ),
    sources=(
        "https://github.com/KasperGroesLudvigsen/influenza_transformer/issues/9",
        "https://github.com/pytorch/tutorials/issues/1547",
        "https://github.com/DiffPoseTalk/DiffPoseTalk/issues/20",
    ),
    bad="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.places = nn.Parameter(torch.randn(64, 1, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)

    def forward(self, x):
        return self.layer(x + self.places[: x.size(0)])


model = Encoder().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.places = nn.Parameter(torch.randn(1, 64, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)

    def forward(self, x):
        return self.layer(x + self.places[:, : x.size(1)])


model = Encoder().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=("AS102", "AS501"),
)  # fmt: skip
