"""AS102: attention mixes the samples of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.probes.batch_mates import BatchMates
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.batch_mates import batch_mates
    from attnscope.checks.structure.batch_axis import said_of
    from attnscope.checks.structure.mixing import softmax_over_samples

    mates = batch_mates(subject)
    if not mates.leaks:
        yield from _tiled(subject)
        return
    said = said_of(subject, mates.stream)
    if said.axis not in {None, mates.stream.batch_axis}:
        return  # the first axis are the tokens: what was changed is no sample
    if softmax_over_samples(subject) is not None:
        return  # told by AS101
    found = next(_over_samples(subject, mates), None) or _mixed(subject, mates)
    if found is None:
        return
    if said.axis is not None:
        declared = said.why.startswith("declared")
        yield replace(found, fix=_FIX_IN_CODE) if declared and found.fix == RULE.fix else found
        return
    name = mates.stream.name
    yield replace(
        found,
        severity="note",
        message=f"{found.message}; nothing says that axis 0 of {name} is the batch",
        fix=(
            f"If axis 0 of {name} is the sequence, declare expect batch_axis=1. "
            f"If it is the batch: {found.fix}"
        ),
    )


def _over_samples(subject: Subject, mates: BatchMates) -> Iterator[Finding]:
    """A call whose keys are the samples."""
    from attnscope.checks.probes.coded import coded
    from attnscope.checks.structure.landing import runs_over_samples
    from attnscope.checks.structure.mixing import line_of_samples
    from attnscope.checks.structure.splitting import line_of_axes

    for each in coded(subject):
        keys = runs_over_samples(each)
        if keys is not None:
            yield RULE.found(
                f"the {keys.keys} keys of each query are {_rows(mates, keys.samples)}: "
                f"{_moved(mates)}",
                {**_numbers(mates), "keys": keys.keys, "batch": keys.samples},
                source=line_of_samples(subject, mates, each.call)
                or line_of_axes(subject, each.call),
                call=each.call,
            )


def _mixed(subject: Subject, mates: BatchMates) -> Finding | None:
    """Find an operation of an attention, or around it, that mixes samples."""
    from attnscope.checks.probes.coded import coded
    from attnscope.checks.structure.landing import scrambled
    from attnscope.checks.structure.mixing import where_samples_mix

    if any(scrambled(each) is not None for each in coded(subject)):
        return None  # pieces of tokens move between samples too
    found = where_samples_mix(subject, mates)
    if found is None:
        return None
    name = found.operation.spoken
    if found.laid_out:
        text = f"rows of attention hold tokens of several samples since {name}: {_moved(mates)}"
    else:
        text = f"attention mixes the samples of the batch in {name}: {_moved(mates)}"
    return RULE.found(
        text,
        {**_numbers(mates), "operation": found.operation.name},
        source=found.operation.source,
        call=found.call,
        fix=_FIX_OF_MIXING,
    )


def _tiled(subject: Subject) -> Iterator[Finding]:
    """Sequences that several rows share, handed to rows that don't lie beside each other."""
    from attnscope.checks.structure.sharing import tiled_memory

    for found in tiled_memory(subject):
        yield RULE.found(
            f"sample {found.sample} of {found.memory} moves the rows "
            f"{', '.join(map(str, found.rows))} of {found.main}: it is repeated as a whole, while "
            f"the {found.share} rows of one sample lie beside each other "
            f"({found.sample * found.share} to {(found.sample + 1) * found.share - 1})",
            {
                "memory": found.memory,
                "sample": found.sample,
                "rows": list(found.rows),
                "rows_a_sample": found.share,
            },
            source=found.source,
            call=found.call,
            severity="warning" if found.told else "note",
            fix=_FIX_OF_TILES,
        )


def _rows(mates: BatchMates, rows: int) -> str:
    """Return what the keys are; a model may have laid each sample out in several rows."""
    samples = mates.others + 1
    if rows == samples:
        return f"the {samples} samples of the batch"
    return f"{rows} rows of all {samples} samples of the batch"


def _numbers(mates: BatchMates) -> dict[str, Any]:
    return {
        "changed_sample": mates.changed,
        "moved_in_other_samples": mates.largest,
        "noise": mates.noise,
        "samples_moved": mates.moved,
        "token_moves_other_tokens": mates.token_reach,
    }


def _moved(mates: BatchMates) -> str:
    text = (
        f"changing one sample moves {mates.moved} of {mates.others} others, by up to "
        f"{mates.largest:.2g} (noise {mates.noise:.1g})"
    )
    if mates.token_reach is None:
        return text
    if mates.token_reach == 0.0:
        return f"{text}, and changing a token moves no other token of its own sample"
    return f"{text}; changing a token moves others of its sample by {mates.token_reach:.2g}"


_FIX_IN_CODE = (
    "Put the batch where the code takes it to be: pass batch_first=True (nn.MultiheadAttention, "
    "nn.TransformerEncoder and their like read (length, batch, width) by default), or split the "
    "heads so that the last two axes are tokens and features: permute(1, 2, 0, 3) for (length, "
    "batch, heads, head_dim), permute(0, 2, 1, 3) for (batch, length, heads, head_dim)."
)
_FIX_OF_TILES = (
    "Repeat each sample in place: memory.repeat_interleave(beams, dim=0), or "
    "memory[:, None].expand(-1, beams, -1, -1).flatten(0, 1)."
)
_FIX_OF_MIXING = (
    "Keep the batch an axis of its own from the projections to the output, view(batch, length, "
    "heads, head_dim), or mask out the tokens of other samples."
)

RULE = Rule(
    code="AS102",
    name="batch-attention",
    severity="error",
    what=(
        "Attention runs over the samples of a batch instead of the tokens of a sequence: at each "
        "position on its own, the samples attend to one another."
    ),
    why=(
        "No token ever sees another token of its sample, and every output depends on what else "
        "happens to be in the batch. Nothing raises, shapes are right and the loss falls; at batch "
        "size 1 attention is the identity."
    ),
    fix=(
        "Put the batch where the code takes it to be: pass batch_first=True "
        "(nn.MultiheadAttention, nn.TransformerEncoder and their like read (length, batch, width) "
        "by default), or split the heads of (length, batch, width) with permute(1, 2, 0, 3) so "
        "that the last two axes are tokens and features. Where the inputs really are (length, "
        "batch, width), declare expect batch_axis=1."
    ),
    proof=(
        "One sample is replaced by another one; if attention keeps samples apart, no other sample "
        "moves by more than the noise of the run (16 times its distance from the same run in "
        "float64). Then single tokens of what the projections receive are changed one at a time: "
        "the rule fires where the same position of different samples lands in different keys of "
        "one attention row, and otherwise at the first operation of an attention whose result "
        "moves for samples that were not changed (float64)."
    ),
    limits=(
        "Which axis is the batch follows from expect, from names, docstrings and comments in the "
        "code, from masks, positions that are added along an axis, pooling, and from torch's own "
        "layers. Where nothing says so it is taken to be the first, and the finding is a note. "
        "Attention over samples on purpose has to be declared."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/issues/41508",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html",
    ),
    bad="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4)

    def forward(self, x):
        batch, length, width = x.shape
        attended, _ = self.attention(x, x, x)
        return x + attended


model = Encoder().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        batch, length, width = x.shape
        attended, _ = self.attention(x, x, x)
        return x + attended


model = Encoder().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=(
        "AS101", "AS103", "AS106", "AS201", "AS202", "AS203", "AS205", "AS206", "AS209", "AS210",
        "AS211", "AS212", "AS302", "AS303", "AS305", "AS401", "AS402", "AS403", "AS404", "AS405",
        "AS501", "AS502", "AS503", "AS504", "AS601", "AS901", "AS902",
    ),
)  # fmt: skip
