"""AS107: keys and values come from the wrong sequence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.structure.streams import astray, divided

    yield from _of_earlier_batch(subject)
    for found in astray(subject):
        name = found.unread.stream.name
        where = found.call.module or "the model"
        effect = (
            f"every token of {name} was changed: no output moves by more than "
            f"{found.unread.largest:.1g} "
            f"(noise {found.unread.noise:.1g})"
            if found.unread.is_still
            else f"{name} was changed as a whole: neither q, k nor v of this call moves"
        )
        if found.values_only:
            text = f"the keys of {where} come from {name}, {found.what}: they don't"
        else:
            text = f"the keys and values of {where} do not come from {name}, {found.what}"
        yield RULE.found(
            f"{text}; {effect}",
            {
                "sequence": name,
                "output_moves_by": found.unread.largest,
                "noise": found.unread.noise,
                "calls_that_read_it": sorted(found.unread.reads),
            },
            source=found.source,
            call=found.call,
        )
    for each in divided(subject):
        where = each.call.module or "the model"
        yield RULE.found(
            f"the keys of {where} come from {each.keys}, its values from {each.values}: with every "
            f"token of {each.keys} changed k moves, and with every token of {each.values} v, not k",
            {"keys_from": each.keys, "values_from": each.values},
            source=each.source,
            call=each.call,
            fix=_FIX_OF_HALVES,
        )


def _of_earlier_batch(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.earlier_batch import earlier_batch

    try:
        stale = earlier_batch(subject)
    except Skipped:
        return
    if stale is not None and stale.part != "mask":
        yield RULE.found(
            f"the {stale.part} are those of an earlier batch, kept as {stale.name}: after other "
            f"samples the same inputs give outputs that are off by {stale.moved:.2g} (noise "
            f"{stale.noise:.1g})",
            {"kept_as": stale.name, "moved": stale.moved, "noise": stale.noise},
            source=stale.source,
            call=stale.call,
            fix="Project k and v in each forward; keep only what depends on no token.",
        )


_FIX_OF_HALVES = (
    "Project k and v from the same sequence: self.cross(query=x, key=memory, value=memory), "
    "k, v = self.to_kv(memory).chunk(2, -1)."
)

RULE = Rule(
    code="AS107",
    name="wrong-stream",
    severity="error",
    what=(
        "Cross-attention whose keys and values are made from its own queries' sequence instead of "
        "the context: the decoder reads itself, and the encoder's output, the text or the memory "
        "is never looked at. Or one of the two is: keys of the memory with values of its own. Or "
        "keys and values of the first batch are kept and read for all later ones."
    ),
    why=(
        "Shapes fit, self-attention learns something, and conditioning has no effect: captions "
        "without the picture, translations without the source."
    ),
    fix=(
        "Hand the context to the layer, and project k and v from it: self.cross(query=x, "
        "key=memory, value=memory), decoder(tgt, memory), k, v = self.to_kv(context).chunk(2, -1)."
    ),
    proof=(
        "Every token of the sequence is changed: no output moves beyond the noise of the run, and, "
        "in float64, no k and no v of any call moves at all. The line is that of the call of the "
        "outermost module that no longer receives the sequence, or of the projection of k where "
        "all of them do. Also: a call that reads its own sequence beside projected keys and values "
        "of the other one that nothing uses, where its sister in the same module reads across; and "
        "a call of which the k moves with one sequence, and the v with another, one of them named "
        "as a memory; and keys or values that are others, for the same inputs, once another batch "
        "has run, and stay so."
    ),
    limits=(
        "A gate at zero hides the effect and not the reading, so it is no finding. An input that "
        "is no sequence, or that no attention is there for, is told by AS208."
    ),
    sources=(
        "https://github.com/kyegomez/FlashMHA/issues/3",
        "https://arxiv.org/abs/1706.03762",
    ),
    bad="""
import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x, memory):
        x = x + self.self_attn(x, x, x, need_weights=False)[0]
        return x + self.cross_attn(x, x, x, need_weights=False)[0]


model = DecoderLayer().eval()
inputs = {"x": torch.randn(3, 7, 32), "memory": torch.randn(3, 11, 32)}
""",
    good="""
import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x, memory):
        x = x + self.self_attn(x, x, x, need_weights=False)[0]
        return x + self.cross_attn(x, memory, memory, need_weights=False)[0]


model = DecoderLayer().eval()
inputs = {"x": torch.randn(3, 7, 32), "memory": torch.randn(3, 11, 32)}
""",
    check=_check,
    explains=("AS105", "AS201", "AS202", "AS208", "AS902", "AS903"),
)  # fmt: skip
