"""AS501: the order of tokens cannot matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.course import course_of
    from attnscope.checks.positions.losing import are_added_to_tokens, line_of_loss
    from attnscope.checks.positions.neighbours import knows_neighbours, meet_neighbours
    from attnscope.checks.probes.alike_tokens import alike_tokens

    if subject.expect.get("positions") is False:
        return
    if subject.model is None:
        raise Skipped("a function of tensors gets its positions from outside: give the whole model")
    if not subject.roles.streams or not subject.calls:
        raise Skipped("no sequence or no attention was seen")
    parts = _parts(subject)
    if parts is None:
        return
    declared = subject.expect.get("positions") or (parts and ", ".join(parts[:3]))
    plain = subject.roles.main is not None and subject.roles.main.kind == "ids"
    if not declared and (not plain or subject.causal is not None or knows_neighbours(subject)):
        return
    found = alike_tokens(subject)
    if not found.blind or are_added_to_tokens(subject, parts) or meet_neighbours(subject, parts):
        return
    evidence = {"calls": found.calls, "spread_of_weights": found.spread, "parts": parts}
    told = (
        "nothing tells tokens apart by their place: with the same token at every place, all "
        f"{found.calls} self-attentions receive alike rows and give every visible key the same "
        f"weight (largest relative difference {found.spread:.1g})"
    )
    if declared:
        yield RULE.found(
            f"{told}, although the model has {declared}",
            evidence,
            source=line_of_loss(subject, parts),
            severity="warning",
        )
    else:
        course = course_of(subject, subject.calls[0])
        line = course.line(course.softmax) if course is not None else None
        yield RULE.found(told, evidence, source=line, call=subject.calls[0])


def _parts(subject: Subject) -> list[str] | None:
    """Return positional parts that should have an effect; None: they are yet to be trained."""
    from attnscope.checks.positions.constants import positional_parts
    from attnscope.checks.positions.neighbours import of_single_tokens

    single = of_single_tokens(subject)
    known = [each for each in positional_parts(subject) if each[0] not in single]
    trains = (
        any(p.requires_grad for p in subject.model.parameters())
        if subject.model is not None
        else False
    )
    waiting = [
        name for name, tensor in known if tensor.requires_grad and trains and _is_unset(tensor)
    ]
    return None if waiting else [name for name, _ in known]


_UNSET = 1e-6
"""Largest difference of two entries of a table that holds nothing yet and is to be trained."""


def _is_unset(table: Tensor) -> bool:
    apart = (table.detach() - table.detach().flatten()[0]).abs()
    return float(apart.max()) <= _UNSET


RULE = Rule(
    code="AS501",
    name="no-position",
    severity="note",
    what="The order of the tokens cannot matter: attention is told nothing of their places.",
    why=(
        "Without positions a sentence is a bag of words. That is right for sets, and decoders can "
        "live on their causal mask; where the model has a table of positions that has no effect, "
        "it is a fault that only shows as a worse loss."
    ),
    fix=(
        "Use what the position module returns: x = x + self.pos(positions). Check that the table "
        "is filled, that positions differ from token to token, and that a relative bias is added "
        "to the scores. A model that is meant to have no order is declared by expect positions = "
        "False."
    ),
    proof=(
        "Every token of a sample is replaced by its first one. If rows are alike where attention "
        "receives them and the weights of all visible keys are equal within 1e-5, nothing depends "
        "on places. A note where the model has no positional parts, a warning where expect or "
        "parts of that name say that it should know them."
    ),
    limits=(
        "Tables that are added to tokens and lost by what follows are other rules' (AS502, AS902). "
        "A convolution or a recurrence in place of a table tells neighbours, and is left alone. "
        "Masks of other shapes than padding and causal ones tell places apart by themselves. "
        "Tables that are all alike (within 1e-6) and still to be trained are left alone. Features "
        "that are given from outside may hold positions."
    ),
    sources=("https://github.com/DiffPoseTalk/DiffPoseTalk/issues/20", "https://arxiv.org/abs/1706.03762"),
    bad="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocabulary=50, width=32):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.register_buffer("positions", torch.randn(64, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)

    def forward(self, ids):
        places = self.positions[: ids.shape[1]]
        return self.layer(self.tokens(ids))


model = Encoder().eval()
inputs = torch.randint(0, 50, (3, 7))
""",
    good="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocabulary=50, width=32):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.register_buffer("positions", torch.randn(64, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)

    def forward(self, ids):
        places = self.positions[: ids.shape[1]]
        return self.layer(self.tokens(ids) + places)


model = Encoder().eval()
inputs = torch.randint(0, 50, (3, 7))
""",
    check=_check,
)  # fmt: skip
