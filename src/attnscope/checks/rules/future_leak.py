"""AS201: a position sees later positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.calls.source import Source
    from attnscope.checks.probes.later_tokens import LaterTokens, Leak
    from attnscope.checks.subject.subject import Subject
    from attnscope.checks.visibility.future import Future
    from attnscope.differ.sides.side import Side


def _check(subject: Subject) -> Iterator[Finding]:
    intent = subject.causal
    if intent is None or intent.value is not True:
        return
    from attnscope.checks.probes.later_tokens import later_tokens
    from attnscope.checks.visibility.future import future_seen, has_empty_rows

    if not intent.sure and not _makes_triangle(subject):
        return
    probed = later_tokens(subject)
    if not probed.leaks:
        return
    leak = max(probed.leaks, key=lambda each: (each.moved, each.largest))
    if subject.crash is not None:
        yield _of_crash(subject, probed, leak, intent.why)
        return
    side = _side(subject, probed)
    found = list(future_seen(subject, probed.stream, side))
    for each in found:
        yield RULE.found(
            _message(probed, leak, each),
            _evidence(probed, leak, intent.why)
            | {"query": each.query, "key": each.key, "share_of_later_pairs_seen": each.share},
            source=each.line,
            call=each.layer.call,
        )
    if found or side is not None or has_empty_rows(subject, probed.stream):
        return
    place = _mixing(subject, probed, leak)
    if place is not None:
        yield RULE.found(
            f"{_moved(probed, leak)}; no attention lets the future in: {_statement(place)} does",
            _evidence(probed, leak, intent.why) | {"operation": _statement(place)},
            source=place,
            module="",
            fix=_FIX_OF_OTHERS,
        )
    elif not subject.base.located:
        yield _of_unseen(subject, probed, leak, intent.why)


_FIX_OF_OTHERS = (
    "Let this line take a position and those before it alone: pad a convolution on the left, "
    "F.pad(x, (kernel - 1, 0)); take no mean, norm or shift along the axis of tokens."
)


def _statement(place: Source) -> str:
    """Return the text of a line without its comment."""
    return place.code.partition("  #")[0].strip() or str(place)


def _side(subject: Subject, probed: LaterTokens) -> Side | None:
    """Return the run that shows the leak; None: the base run does."""
    if probed.without is not None:
        return subject.watched(subject.given.with_values(**{probed.without: None}))
    if all(each.mode == "train mode" for each in probed.leaks):
        return subject.watched(subject.given, train=True)
    return None


def _of_unseen(subject: Subject, probed: LaterTokens, leak: Leak, why: str) -> Finding:
    """Return the finding of a model whose attention can't be looked into: where it is called."""
    from attnscope.checks.caller import line_of_call

    unseen = [each.module for each in subject.trace.unseen if each.module]
    path = unseen[0] if unseen else ""
    return RULE.found(
        f"{_moved(probed, leak)}; the attention that lets the future in could not be looked into",
        _evidence(probed, leak, why),
        source=line_of_call(subject, path),
        module=path,
    )


def _makes_triangle(subject: Subject) -> bool:
    """Return whether code that was read for a causal mask did run."""
    return any(op.name.startswith(("tril", "triu")) for op in subject.base.tape.operations)


def _of_crash(subject: Subject, probed: LaterTokens, leak: Leak, why: str) -> Finding:
    """Return the finding of a model that runs in one mode: the line that raises in the other."""
    from attnscope.checks.lines import line_of

    error = " ".join(str(subject.crash).split())[:100]
    return RULE.found(
        f"{_moved(probed, leak)}; where gradients are on, the same line raises: {error}",
        _evidence(probed, leak, why),
        source=line_of(subject.crash) if subject.crash is not None else None,
        module="",
    )


def _moved(probed: LaterTokens, leak: Leak) -> str:
    return (
        f"changing {probed.stream.name} from position {leak.cut} on moves {leak.moved} of the "
        f"positions before it, by up to {leak.largest:.2g} (noise {probed.noise:.1g}, "
        f"in {leak.mode})"
    )


def _message(probed: LaterTokens, leak: Leak, future: Future) -> str:
    seen = (
        f"{future.share:.0%} of all later pairs are" if future.share < 1 else "all later pairs are"
    )
    return (
        f"{_moved(probed, leak)}; position {future.query} attends to {future.key}: {seen} visible"
    )


def _evidence(probed: LaterTokens, leak: Leak, why: str) -> dict[str, object]:
    return {
        "first_changed": leak.cut,
        "moved_before": leak.largest,
        "positions_moved": leak.moved,
        "position": leak.position,
        "noise": probed.noise,
        "modes": [each.mode for each in probed.leaks],
        "causal_because": why,
    }


def _mixing(subject: Subject, probed: LaterTokens, leak: Leak) -> Source | None:
    """Return the line of the first operation that carries later tokens to earlier positions."""
    from attnscope.checks.visibility.mixing import line_of_mixing

    return line_of_mixing(subject, probed.stream, leak.cut)


RULE = Rule(
    code="AS201",
    name="future-leak",
    severity="error",
    what="A position of a causal model depends on positions after it.",
    why=(
        "In training the model reads the token that it is to predict: the loss falls towards zero, "
        "even on random tokens, and what is generated later, without the future, is useless."
    ),
    fix=(
        "Mask the later keys before the softmax: F.scaled_dot_product_attention(q, k, v, "
        "is_causal=True), or scores.masked_fill(torch.ones(length, length).triu(1).bool(), "
        "float('-inf')). torch's layers mask nothing by themselves: is_causal=True is a hint, pass "
        "mask=nn.Transformer.generate_square_subsequent_mask(length) too."
    ),
    proof=(
        "The tokens from a cut on are replaced by others, in eval mode, with gradients and in "
        "train mode; an output before the cut that moves by more than the noise of the run (16 "
        "times its distance from the same run in float64) depends on them. Then each attention is "
        "run by itself in float64 with single tokens changed and its queries held, so that the "
        "pairs which really attend are known; the line is that of the first operation that makes "
        "such a pair visible, in a constructor too; that of whoever builds or calls a layer "
        "otherwise than its like; or of the softmax where nothing is masked. Of a model with a "
        "config that takes a padding mask or none, both are run."
    ),
    limits=(
        "Runs where expect, the config, names or the code say that the model is causal. Without "
        "any attention that leaks the line is that of the first other operation which mixes "
        "positions: a convolution, a norm or a mean over time. What expect declares as a prefix "
        "may see itself both ways. Of two sequences that each attend to themselves, the one that "
        "looks back is the decoder's, and the other one may look ahead."
    ),
    sources=(
        "https://github.com/pytorch/tutorials/issues/2478",
        "https://github.com/pytorch/pytorch/issues/96941",
        "https://arxiv.org/abs/2508.04925",
    ),
    bad="""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocabulary=50, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.layers(self.embedding(ids)))


model = Decoder().eval()
inputs = torch.randint(0, 50, (2, 9))
expect = {"causal": True}
""",
    good="""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocabulary=50, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.layers(self.embedding(ids), mask=mask, is_causal=True))


model = Decoder().eval()
inputs = torch.randint(0, 50, (2, 9))
expect = {"causal": True}
""",
    check=_check,
    on_crash=True,
    explains=("AS206", "AS208", "AS210", "AS212", "AS601", "AS801"),
)  # fmt: skip
