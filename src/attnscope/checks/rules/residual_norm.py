"""AS904: a residual connection, or the norm beside it, is misplaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.calls.source import Source
    from attnscope.checks.residual.stream import Misplacement
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.residual.misplacing import misplacements

    if subject.model is None:
        raise Skipped("a function has no layers around its attention: give a module")
    for each in misplacements(subject):
        yield _finding(subject, each)


def _finding(subject: Subject, each: Misplacement) -> Finding:
    tensors, around = subject.base.tape.tensors, each.around
    received = next(iter(around.located.received.values()), None)
    after = _rms(tensors[each.at.defines[0]])
    before = 0.0 if received is None else _rms(tensors[received])
    return RULE.found(
        f"{_TEXTS[each.kind]} (rms {after:.3g} here, {before:.3g} where attention receives it)",
        {"kind": each.kind, "operation": each.at.name, "rms": after, "rms_received": before},
        source=_line(subject, each),
        call=around.located.call,
        fix=_FIXES[each.kind],
    )


def _line(subject: Subject, each: Misplacement) -> Source | None:
    """Return the line of the operation; of a sum that isn't there, that which calls attention.

    What a torch.nn.Sequential calls has no line of its own: it is where it was put together.
    """
    from torch import nn

    from attnscope.checks.caller import line_of_call
    from attnscope.checks.definitions import built

    own, around = each.at.source, each.around
    beside = around.later[0].operation.source if around.later else None
    if each.kind != "missing" or own is None or beside is None or own.function == beside.function:
        return own
    path = around.located.call.module
    part, holder = subject.module(path), subject.module(path.rpartition(".")[0])
    put = None
    if subject.model is not None and part is not None and isinstance(holder, nn.Sequential):
        put = built(subject.model, part)
    return put or line_of_call(subject, path) or own


def _rms(tensor: Tensor) -> float:
    return float(tensor.detach().double().square().mean().sqrt()) if tensor.numel() else 0.0


_TEXTS = {
    "after the norm": (
        "the residual around attention is taken after the norm: both operands of the sum come "
        "from the same norm, which cuts the stream in every layer, while the next sum of the "
        "block takes it before its norm"
    ),
    "after the second norm": (
        "the residual around the feed-forward is taken after the norm: it adds to the norm of the "
        "sum behind attention, which cuts the stream in every layer, while attention adds to the "
        "stream itself"
    ),
    "doubled": (
        "the residual is doubled: what attention received (or returned) is added twice, so that "
        "the stream counts with a factor of 2 in every layer"
    ),
    "missing": (
        "attention has no residual: its result goes on without what it received, while the "
        "feed-forward behind it has one; the only way through the block is through attention"
    ),
    "block input": (
        "the feed-forward adds what the block received instead of the sum behind attention: "
        "attention's result reaches the output only through the feed-forward"
    ),
}
_FIXES = {
    "after the norm": "Add to the stream itself, not to its norm: x = x + attention(norm(x)).",
    "after the second norm": "Add to the stream itself: x = x + feed_forward(norm(x)).",
    "doubled": "Add it once: either inside the attention module or around it.",
    "missing": "Add the stream: x = x + attention(norm(x)), or x = norm(x + attention(x)).",
    "block input": "Add the sum: x = x + attention(norm(x)); x = x + feed_forward(norm(x)).",
}

RULE = Rule(
    code="AS904",
    name="residual-norm",
    severity="warning",
    what=(
        "The residual connection around attention is taken after the norm, doubled, missing, or "
        "comes from the wrong tensor."
    ),
    why=(
        "Shapes are right and it trains, but depth behaves otherwise than meant: a stream that is "
        "normed in each layer has no identity path, a doubled one grows by 2 a layer, a missing "
        "one loses rank. Weights depend on it, so it can't be mended after training."
    ),
    fix=(
        "Pre-norm: x = x + attention(norm(x)). Post-norm: x = norm(x + attention(x)). The same for "
        "the feed-forward."
    ),
    proof=(
        "Every operation of a run is written down. The rule reads the sum that attention's result "
        "joins and where its other operand comes from, through layout, dropout and scaling, and "
        "compares it with the sum that follows."
    ),
    limits=(
        "A stack that norms first and adds after the norm in every sum is, operation by operation, "
        "a post-norm stack, and is left alone. So are sandwich norms, parallel branches, scaled "
        "residuals, blocks with a skip of their own around them, and attention whose queries and "
        "keys come from different places."
    ),
    sources=(
        "https://github.com/Howuhh/faster-trajectory-transformer/issues/3",
        "https://github.com/kyegomez/BitNet/issues/32",
        "https://github.com/strutive07/transformer-tensorflow2.0/issues/14",
    ),
    bad="""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x):
        x = self.norm1(x)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


model = nn.Sequential(Block(), Block()).eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


model = nn.Sequential(Block(), Block()).eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
)  # fmt: skip
