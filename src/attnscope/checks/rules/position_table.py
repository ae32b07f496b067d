"""AS505: a table of positions differs from its formula, or lost its precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    if subject.model is None:
        raise Skipped("a function of tensors gets its positions from outside: give the whole model")
    yield from _added(subject)
    yield from _rotary(subject)
    yield from _slopes(subject)


def _added(subject: Subject) -> Iterator[Finding]:
    """Tables of sines and cosines that are added."""
    from attnscope.checks.positions.added import added
    from attnscope.checks.positions.lines import line_of_table, says_ten_thousand
    from attnscope.checks.positions.rounding import bases_of
    from attnscope.checks.positions.sinusoids import fault_of_table

    for each in added(subject):
        rows = each.rows
        if rows is None or each.table.requires_grad:
            continue
        fault = fault_of_table(
            rows, says_ten_thousand=says_ten_thousand(subject), bases=bases_of(subject)
        )
        if fault is None:
            continue
        yield RULE.found(
            f"the table that is added for positions ({rows.shape[0]} positions, width "
            f"{rows.shape[1]}) is wrong: {fault.text}",
            {
                "kind": fault.kind,
                "largest_error": fault.error,
                "at": list(fault.at),
                "base": fault.base,
            },
            source=line_of_table(subject, fault.kind) or each.operation.source,
            module="",
        )


def _rotary(subject: Subject) -> Iterator[Finding]:
    """Tables that q and k are turned by."""
    from attnscope.checks.positions.lines import line_of_table
    from attnscope.checks.positions.speeds import bad_frequencies, rotary_table_faults

    for name, text, operation in bad_frequencies(subject):
        yield RULE.found(
            text,
            {"kind": "unfilled", "buffer": name},
            source=operation.source if operation is not None else None,
            module=name.rpartition(".")[0],
        )
    for turning, fault, operation in rotary_table_faults(subject):
        yield RULE.found(
            fault.text,
            {"kind": fault.kind, "largest_error": fault.error, "at": list(fault.at)},
            source=line_of_table(subject, fault.kind) or operation.source,
            call=turning.located.call,
            fix=_FIX_OF_PRECISION if fault.kind == "precision" else None,
        )


def _slopes(subject: Subject) -> Iterator[Finding]:
    """Linear biases."""
    from attnscope.checks.course import course_of
    from attnscope.checks.positions.lines import line_of_table
    from attnscope.checks.positions.slopes import bias_operations, fault_of_slopes, slopes_of

    for call in subject.calls:
        slopes = slopes_of(call)
        fault = None if slopes is None else fault_of_slopes(slopes, call.recipe.scale)
        if fault is None:
            continue
        course = course_of(subject, call)
        added, power = bias_operations(course) if course is not None else (None, None)
        if fault.kind in {"rewards", "scaled"}:
            source = added.source if added is not None else None
        else:
            source = power.source if power is not None else line_of_table(subject, "slopes")
        yield RULE.found(
            fault.text,
            {"kind": fault.kind, "slopes": list(fault.slopes), "expected": list(fault.expected)},
            source=source,
            call=call,
            fix=_FIXES_OF_SLOPES[fault.kind],
            severity="note" if fault.kind == "scaled" else None,
        )


_FIXES_OF_SLOPES = {
    "rewards": "Subtract slope · (query - key): far keys must lose, scores - slope * (i - j).",
    "start": "Take 2 ** (-8 * (i + 1) / heads) for head i, counted from 0.",
    "scaled": "Add the bias after the scaling: scores = q·k · scale + bias (Falcon scales both).",
}
_FIX_OF_PRECISION = (
    "Compute positions, angles, cosines and sines in float32, whatever the model's type, and "
    "cast the result; keep the buffers out of model.half() and model.to(bfloat16)."
)

RULE = Rule(
    code="AS505",
    name="position-table",
    severity="error",
    what=(
        "A table of positions (sinusoids, rotary angles, linear biases) differs from the formula "
        "that it was made by, was never filled, or lost its precision in half types."
    ),
    why=(
        "Some distances look alike, or far tokens are favoured, or positions beyond a few hundred "
        "collapse. Nothing raises; the model learns around it and fails at length, or disagrees "
        "with a checkpoint."
    ),
    fix=(
        "Take angle = position / base ** (2 * i / width) with sine and cosine of the same angle in "
        "each pair; check brackets, integer division and the sign of the exponent."
    ),
    proof=(
        "Tables are read from the recorded run and rebuilt in float64. Every column of a "
        "sinusoidal table is a sine or cosine of the place; the rule fires where a pair has two "
        "frequencies or no cosine, all frequencies are one, the base they imply is beyond 1e12, a "
        "table is off by more than 0.05 and holds the very numbers that positions, frequencies or "
        "angles in half precision give (rounding of the table itself is 1/256), or a fixed linear "
        "bias grows with distance or starts its series at the wrong term. A note where such a bias "
        "is scaled together with the scores."
    ),
    limits=(
        "Learned tables have no formula. Other bases, scaled frequencies (YaRN, NTK), partial and "
        "two-dimensional tables, and slopes for head counts that are no powers of two are left "
        "alone."
    ),
    sources=(
        "https://arxiv.org/abs/1706.03762",
        "https://arxiv.org/abs/2108.12409",
        "https://github.com/EleutherAI/gpt-neox/issues/1003",
        "https://github.com/huggingface/transformers/pull/29285",
    ),
    bad="""
import torch
from torch import nn


def table(length, width):
    place = torch.arange(length)[:, None]
    rate = 10000 ** (-torch.arange(0, width, 2) / width)
    rows = torch.zeros(length, width)
    rows[:, 0::2] = torch.sin(place * rate)
    rows[:, 1::2] = torch.sin(place * rate)
    return rows


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.register_buffer("places", table(64, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)

    def forward(self, x):
        return self.layer(x + self.places[: x.shape[1]])


model = Encoder().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


def table(length, width):
    place = torch.arange(length)[:, None]
    rate = 10000 ** (-torch.arange(0, width, 2) / width)
    rows = torch.zeros(length, width)
    rows[:, 0::2] = torch.sin(place * rate)
    rows[:, 1::2] = torch.cos(place * rate)
    return rows


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.register_buffer("places", table(64, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)

    def forward(self, x):
        return self.layer(x + self.places[: x.shape[1]])


model = Encoder().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=("AS501", "AS503"),
)  # fmt: skip
