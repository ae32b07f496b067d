"""AS202: padded positions reach real ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.calls.source import Source
    from attnscope.checks.masking.entering import Entry
    from attnscope.checks.masking.hides import Hide
    from attnscope.checks.masking.unrecorded import Unrecorded
    from attnscope.checks.probes.padding_fills import PaddingFill
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.padding_fills import padding_fills
    from attnscope.checks.subject.libraries import is_of_library

    for fill in padding_fills(subject):
        guessed = fill.subject is not subject or is_of_library(subject.run)
        made = fill.entry is None and guessed and not fill.padding.declared
        if fill.unrecorded is not None and fill.unrecorded.inverted:
            continue  # AS205
        if not math.isfinite(fill.largest):
            continue  # the outputs hold NaN to begin with: AS802
        if fill.leaks and not made and not _is_read_by_none(fill):
            if fill.entry is not None:
                yield _of_call(fill, fill.entry)
            elif fill.unrecorded is not None:
                yield _of_unrecorded(fill, fill.unrecorded)
            else:
                yield _of_pooling(fill)


def _is_read_by_none(fill: PaddingFill) -> bool:
    """Return whether the mask changes nothing, and only its name says that it is one: AS208."""
    from attnscope.checks.probes.toggled_arguments import toggled_arguments
    from attnscope.checks.rule import Skipped

    if fill.padding.declared or fill.padding.meaning == "pad":
        return False
    try:
        toggled = toggled_arguments(fill.subject)
    except Skipped:
        return False
    return any(each.name == fill.padding.name and each.ignored for each in toggled)


def _of_call(fill: PaddingFill, entry: Entry) -> Finding:
    line, name = _line(fill, entry)
    padding, seen = fill.padding, entry.seen
    left_out = f"; {name} is left out here" if name is not None else ""
    change = (
        f"without the keys of {_count(fill)} padded positions of {padding.stream.name}"
        if fill.share
        else f"with other contents in {_count(fill)} padded positions of {padding.stream.name}"
    )
    return RULE.found(
        f"{change}, "
        f"{fill.outputs} {'real tokens' if fill.of == 'tokens' else 'samples'} move by up to "
        f"{fill.largest:.2g} (in float64, where 0 is right): query {entry.query} of sample "
        f"{entry.sample} gives a padded key a weight of {entry.weight:.2g}{left_out}",
        {
            **_evidence(fill),
            "weight_on_padding": entry.weight,
            "sample": entry.sample,
            "query": entry.query,
            "queries": entry.queries,
        },
        source=line,
        call=seen.call,
    )


def _of_unrecorded(fill: PaddingFill, unrecorded: Unrecorded) -> Finding:
    hiding = unrecorded.additive.hiding
    mask = "though keys are hidden here" if hiding is not None else "and no key is hidden from it"
    return RULE.found(
        f"with other contents in {_count(fill)} padded positions of {fill.padding.stream.name}, "
        f"{fill.outputs} {'real tokens' if fill.of == 'tokens' else 'samples'} move by up to "
        f"{fill.largest:.2g} (in float64, where 0 is right): the softmax over additive scores "
        f"gives a padded key of sample {unrecorded.sample} a weight of {unrecorded.weight:.2g}, "
        f"{mask}",
        {
            **_evidence(fill),
            "weight_on_padding": unrecorded.weight,
            "sample": unrecorded.sample,
        },
        source=unrecorded.additive.line,
        module="",
    )


def _of_pooling(fill: PaddingFill) -> Finding:
    operation = fill.pooling
    return RULE.found(
        f"other contents in {_count(fill)} padded positions of {fill.padding.stream.name} move "
        f"the output of {fill.outputs} samples by up to {fill.largest:.2g} (in float64, where 0 "
        "is right): attention keeps them apart, but "
        f"{operation.spoken if operation else 'what follows'} takes them in",
        _evidence(fill),
        source=operation.source if operation is not None else None,
        module="",
        fix=(
            "Leave padded positions out of what follows attention too: average with the mask, "
            "(x * mask).sum(1) / mask.sum(1), or take the last real position of each sample."
        ),
    )


def _count(fill: PaddingFill) -> int:
    return int((~fill.real).sum())


def _evidence(fill: PaddingFill) -> dict[str, object]:
    return {
        "padding": f"{fill.padding.name} {fill.padding.meaning}",
        "padded": _count(fill),
        "moved": fill.outputs,
        "largest": fill.largest,
        "of_output": fill.scale,
        "noise": 0.0,
    }


def _line(fill: PaddingFill, entry: Entry) -> tuple[Source, str | None]:
    """Return where the mask is made or meets the scores, or where it was left out."""
    from attnscope.checks.masking.lines import depends, line_of_absent, line_of_making
    from attnscope.checks.visibility.foreign import line_of_foreign

    subject, seen = fill.subject, entry.seen
    names = (fill.padding.name, fill.padding.stream.name)
    inputs = [subject.input_value(n) for n in names if n in subject.given.values]
    hides: list[Hide] = [hide for hide in seen.hides if depends(seen, hide, inputs)]
    if hides:
        real = fill.real if fill.tokens is None else fill.tokens
        return line_of_making(seen, hides[0], inputs, real), None
    foreign = line_of_foreign(seen)
    return (foreign, None) if foreign is not None else line_of_absent(seen, inputs)


RULE = Rule(
    code="AS202",
    name="padding-leak",
    severity="error",
    what=(
        "What stands in padded positions changes the outputs of real tokens, or of a sample as a "
        "whole: attention gives weight to padding, or a pooling takes it in."
    ),
    why=(
        "The output for a sentence depends on how long its batch mates are. Metrics hardly show it "
        "in training, where lengths are alike, and predictions change with the batch size in use."
    ),
    fix=(
        "Hide padded keys from every query before the softmax: scores.masked_fill(~mask[:, None, "
        "None, :], -inf), attn_mask=mask[:, None, None, :] for F.scaled_dot_product_attention "
        "(True = may attend), key_padding_mask=~mask for torch's own layers (True = padding), "
        "memory_key_padding_mask for their cross-attention; hand it on to every layer."
    ),
    proof=(
        "What padded positions hold (rows of the embedding, or features) is replaced, and the "
        "run's own operations are run again in float64. The rule fires where a real token's output "
        "(or the pooled output of a sample with padding) moves by more than 1e-9 of the largest "
        "entry, and either a query that had not moved before gives a padded key more than 1e-6 of "
        "its weight, or an operation behind all attention takes padding in."
    ),
    limits=(
        "Which tokens are padding follows from expect padding, from a mask's name or values, from "
        "padding_idx of an embedding or from the config; where nothing says it, nothing is "
        "checked. Convolutions and recurrences, which mix neighbours on purpose, are left alone. "
        "Where several frames make one token, no token may be made of real frames and padding."
    ),
    sources=(
        "https://github.com/hyunwoongko/transformer/pull/40",
        "https://github.com/Kyubyong/transformer/pull/69",
        "https://github.com/jax-ml/jax/issues/23349",
    ),
    bad="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(50, 32, padding_idx=0)
        self.places = nn.Embedding(20, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        return self.layer(x)


model = Encoder().eval()
inputs = torch.tensor([[5, 9, 3, 8, 2, 7], [4, 6, 1, 0, 0, 0]])
expect = {"padding": "ids pad=0"}
""",
    good="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(50, 32, padding_idx=0)
        self.places = nn.Embedding(20, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        return self.layer(x, src_key_padding_mask=ids == 0)


model = Encoder().eval()
inputs = torch.tensor([[5, 9, 3, 8, 2, 7], [4, 6, 1, 0, 0, 0]])
expect = {"padding": "ids pad=0"}
""",
    check=_check,
    explains=("AS203", "AS212", "AS305", "AS504", "AS801"),
)  # fmt: skip
