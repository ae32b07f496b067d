"""AS101: the softmax does not run over the keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.scoring.axis import Outside, Twice, WrongAxis
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.recomputed import evidence_of
    from attnscope.checks.scoring.axis import over_one, over_samples, softmax_again, wrong_axis
    from attnscope.checks.structure.single import over_single_query

    told = False
    for call in subject.calls:
        wrong = wrong_axis(subject, call)
        if wrong is not None:
            told = True
            yield RULE.found(
                _of_axis(wrong),
                {
                    "axis": wrong.axis,
                    "row_sums": list(wrong.row_sums),
                    "sums_over_axis": wrong.sums,
                    "weights_transposed": wrong.transposed,
                    **evidence_of(subject, call),
                },
                source=wrong.source,
                call=call,
                fix=_FIX_OF_PRODUCT if wrong.transposed else None,
            )
            continue
        twice = softmax_again(subject, call)
        if twice is not None:
            yield RULE.found(
                _of_second(twice),
                {"largest_weight": twice.largest, "bound": twice.bound, "keys": twice.keys},
                source=twice.source,
                call=call,
                fix="Take the second softmax away: the weights sum to one already.",
            )
            continue
        single = over_single_query(subject, call)
        if single is not None:
            yield RULE.found(
                f"the softmax over axis {single.axis} of {single.shape} runs over an axis of one "
                f"entry: each of the {call.keys} weights of a query is 1, whatever its score",
                {"axis": single.axis, "size": 1, "shape": list(single.shape)},
                source=single.source,
                call=call,
            )
    if not told:
        yield from _with_samples(subject)
    yield from _of_pieces(subject)
    outsides = [*over_one(subject), *over_samples(subject)]
    yield from _of_additive(subject, {str(each.source) for each in outsides})
    for outside in outsides:
        rows = _rows_that_may_be_tokens(subject) if outside.size > 1 else None
        doubt = f"; nothing says that axis 0 of {rows} is the batch" if rows else ""
        yield RULE.found(
            f"{_of_outside(outside)}{doubt}",
            {"axis": outside.axis, "size": outside.size, "shape": list(outside.shape)},
            source=outside.source,
            module="",
            severity="note" if rows else None,
        )


def _rows_that_may_be_tokens(subject: Subject) -> str | None:
    """Return the name of a matrix (rows, features), whose rows may be the nodes of one graph."""
    main = subject.roles.main
    if main is None or main.certain or main.sequence_axis is not None:
        return None
    return main.name if subject.given.values[main.name].dim() == 2 else None


def _of_pieces(subject: Subject) -> Iterator[Finding]:
    """Blocks of keys that are normalised one by one."""
    from attnscope.checks.scoring.pieces import softmax_of_pieces

    for each in softmax_of_pieces(subject):
        keys = sum(each.sizes)
        yield RULE.found(
            f"the softmax runs over blocks of {each.sizes[0]} of the {keys} keys, one by one, and "
            "what they give is put together whatever their scores: moving all scores of one block "
            f"by up to {each.shift:.2g} moves the output by nothing",
            {"blocks": list(each.sizes), "keys": keys, "shift": each.shift, "moved_by": 0.0},
            source=each.source,
            call=each.call,
            fix=_FIX_OF_PIECES,
        )


def _of_additive(subject: Subject, told: set[str]) -> Iterator[Finding]:
    """Additive scores: what a result takes of the weights has to sum to one."""
    from attnscope.checks.masking.additive import additive_of

    for each in additive_of(subject):
        sums = each.sums[each.sums.isfinite()]
        if each.after is not None or not sums.numel() or str(each.softmax.source) in told:
            continue
        low, high = float(sums.min()), float(sums.max())
        if high - low < _UNEVEN or max(abs(low - 1), abs(high - 1)) < _UNEVEN:
            continue
        told.add(str(each.softmax.source))
        shape = tuple(each.weights.shape)
        yield RULE.found(
            f"the softmax runs over axis {each.axis} of {shape}, and the values are summed over "
            f"another one: what one result takes of the weights sums to {low:.3g} … {high:.3g} "
            "instead of 1",
            {"axis": each.axis, "shape": list(shape), "row_sums": [low, high]},
            source=each.softmax.source,
            module="",
        )


_FIX_OF_PIECES = (
    "Weigh each block by its own sum: keep its largest score m and the sum of exp(scores - m) "
    "beside exp(scores - m) @ v, and divide by the sum over all blocks at the end; or put the "
    "scores of all blocks side by side before the softmax."
)

_UNEVEN = 1e-3
"""How far sums of weights must be from one, and from one another."""


def _with_samples(subject: Subject) -> Iterator[Finding]:
    """A softmax of which samples of the batch are a part."""
    from attnscope.checks.structure.mixing import softmax_over_samples

    try:
        found = softmax_over_samples(subject)
    except Skipped:
        return  # there is no batch
    if found is not None:
        shape = list(found.operation.shapes[0]) if found.operation.shapes else []
        yield RULE.found(
            f"the softmax of scores {tuple(shape)} runs over the samples of the batch too: "
            "changing one sample changes the weights of the others",
            {"axis": "batch", "shape": shape},
            source=found.operation.source,
            call=found.call,
        )


def _of_axis(wrong: WrongAxis) -> str:
    low, high = wrong.row_sums
    what = (
        "the weights meet v transposed, so that they sum to one over the queries"
        if wrong.transposed
        else f"the softmax runs over the {wrong.axis}"
    )
    return (
        f"{what}: the weights of a query sum to {low:.3g} … {high:.3g} over its keys "
        f"and to {wrong.sums:.6g} over the {wrong.axis}"
    )


def _of_second(twice: Twice) -> str:
    return (
        "a second softmax runs over weights that sum to one already: no weight can pass "
        f"e/(keys - 1 + e) = {twice.bound:.3g} of {twice.keys} keys (largest {twice.largest:.3g}), "
        "and hidden keys get weight again"
    )


def _of_outside(outside: Outside) -> str:
    if outside.size == 1:
        return (
            f"the softmax runs over an axis of one entry of {outside.shape}: every weight is 1, "
            "whatever the score"
        )
    return (
        f"the softmax over axis {outside.axis} of {outside.shape} runs over the "
        f"{outside.size} samples "
        "of the batch: changing one sample changes the weights of the others"
    )


_FIX_OF_PRODUCT = (
    "Multiply weights (queries, keys) with v as they are: weights @ v, "
    'or einsum("bhqk,bhkd->bhqd", weights, v).'
)

RULE = Rule(
    code="AS101",
    name="softmax-axis",
    severity="error",
    what=(
        "The softmax runs over the queries, the heads or the batch instead of over the keys, or "
        "over an axis of one entry, or a second time over its own result; or its result meets v "
        "transposed."
    ),
    why=(
        "The weights of a query no longer say how it divides its attention: they sum to anything, "
        "keys compete for queries, and under a causal mask the past learns from the future. It "
        "trains, so nobody notices."
    ),
    fix="Normalise over the keys: scores.softmax(dim=-1) for scores (..., queries, keys).",
    proof=(
        "The weights as they meet v are recomputed in float64: the rule fires where rows do not "
        "sum to one over the keys, and do (within 1e-6) over the queries, the heads or the batch. "
        "Weights that are divided by their sum over the keys afterwards, as in slot attention, sum "
        "to one and are left alone. Of additive scores, v·tanh(W q + U k), what each result takes "
        "of the weights is summed. Of keys that are gone through in blocks of one size, one and "
        "the same vector is added to all keys of a block, which moves all their scores alike: "
        "where no output moves, the block has a softmax of its own."
    ),
    limits=(
        "Weights that are masked, dropped or gated after the softmax sum to nothing known: there "
        "the recorded operation alone is looked at. With one query, one head and one sample no "
        "other axis can be told. Where the rows of a matrix are weighed, they may be the nodes of "
        "one graph: a note."
    ),
    sources=(
        "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146",
        "https://arxiv.org/abs/2006.15055",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        weights = scores.softmax(dim=-2)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        weights = scores.softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=(
        "AS102", "AS201", "AS202", "AS203", "AS204", "AS205", "AS206", "AS207", "AS212", "AS302",
        "AS305", "AS401", "AS402", "AS403", "AS404", "AS405", "AS803", "AS902", "AS903",
    ),
)  # fmt: skip
