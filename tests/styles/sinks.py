"""Places where attention may go that are no token: sink columns, zero keys, learned keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Core, Projections, core, lower, seeded, split, usual
from .truth import Style, Truth, attend


class SinkColumn(Core):
    """A learned score a head, concatenated as one more column and dropped after the softmax."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.sinks = nn.Parameter(torch.randn(3))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend, causally, with a sink."""
        attn_weights = torch.matmul(q, k.transpose(2, 3)) * 8**-0.5
        attn_weights = attn_weights + torch.full((5, 5), torch.finfo(q.dtype).min).triu(1)
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[-2], -1)
        combined_logits = torch.cat([attn_weights, sinks], dim=-1)
        combined_logits = combined_logits - combined_logits.max(dim=-1, keepdim=True).values
        probs = F.softmax(combined_logits, dim=-1, dtype=combined_logits.dtype)
        return torch.matmul(probs[..., :-1], v)


class SinkInSum(SinkColumn):
    """The same sink without a column: it only enters the sum."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend, with the sink in the denominator."""
        scores = (q @ k.mT * 8**-0.5).masked_fill(~lower(), float("-inf"))
        sink = self.sinks.view(3, 1, 1)
        top = torch.maximum(scores.amax(-1, keepdim=True), sink)
        e = torch.exp(scores - top)
        return (e / (e.sum(-1, keepdim=True) + torch.exp(sink - top))) @ v


def with_sink(sink: Tensor) -> Callable[[Tensor], Tensor]:
    """Exponentials over their sum and the sink's."""

    def normalise(scores: Tensor) -> Tensor:
        e = scores.exp()
        return e / (e.sum(-1, keepdim=True) + sink.exp())

    return normalise


def sink_truth(m: Any, inputs: Any) -> Truth:
    """Rows sum to less than one."""
    return usual(visible=lower(), normalise=with_sink(m.sinks.view(3, 1, 1)))(m, inputs)


def zero_column(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A column of zeros in front, dropped after the softmax: softmax-off-by-one."""
    scores = F.pad(q @ k.transpose(-1, -2) / math.sqrt(8), (1, 0))
    return scores.softmax(dim=-1)[..., 1:] @ v


def zero_token(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One more key and value of zeros."""
    zero = k.new_zeros(*k.shape[:2], 1, k.shape[-1])
    k, v = torch.cat((k, zero), dim=2), torch.cat((v, zero), dim=2)
    return (q @ k.mT / 8**0.5).softmax(-1) @ v


def zero_token_truth(m: Any, inputs: Any) -> Truth:
    """Six keys."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    return attend(q, F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1)))


class LearnedToken(Projections):
    """A learned key and value appended after projection, sequence first, folded heads."""

    def __init__(self) -> None:
        super().__init__()
        self.bias_k = nn.Parameter(torch.randn(1, 1, 24))
        self.bias_v = nn.Parameter(torch.randn(1, 1, 24))

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x ``(batch, tokens, width)``."""
        x = x.transpose(0, 1)
        n, bsz, _ = x.shape
        q = self.q(x)
        k = torch.cat([self.k(x), self.bias_k.repeat(1, bsz, 1)])
        v = torch.cat([self.v(x), self.bias_v.repeat(1, bsz, 1)])
        q, k, v = (t.view(-1, bsz * 3, 8).transpose(0, 1) for t in (q, k, v))
        w = torch.bmm(q / math.sqrt(8), k.transpose(-2, -1)).softmax(dim=-1)
        out = torch.bmm(w, v).transpose(0, 1).contiguous().view(n, bsz, 24)
        return self.out(out).transpose(0, 1)


def learned_truth(m: Any, inputs: Any) -> Truth:
    """Six keys, the last without a token."""
    (x,) = inputs
    k = torch.cat((m.k(x), m.bias_k.expand(2, 1, 24)), dim=1)
    v = torch.cat((m.v(x), m.bias_v.expand(2, 1, 24)), dim=1)
    return attend(split(m.q(x), 3), split(k, 3), split(v, 3))


class PersistentMemory(Core):
    """Two learned keys and values in front; tokens are causal, the memory is always visible."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.mem_kv = nn.Parameter(torch.randn(2, 3, 2, 8))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend to memory and tokens."""
        mk, mv = (t[None].expand(q.shape[0], -1, -1, -1) for t in self.mem_kv)
        k, v = torch.cat((mk, k), dim=-2), torch.cat((mv, v), dim=-2)
        mask = F.pad(torch.ones(5, 5, dtype=torch.bool).tril(), (2, 0), value=True)
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * 8**-0.5
        dots = dots.masked_fill(~mask, -torch.finfo(dots.dtype).max)
        return torch.einsum("bhij,bhjd->bhid", dots.softmax(dim=-1), v)


def memory_truth(m: Any, inputs: Any) -> Truth:
    """Seven keys, two of them memory."""
    (x,) = inputs
    q, k, v = (split(f(x), 3) for f in (m.q, m.k, m.v))
    k, v = (torch.cat((m.mem_kv[i].expand(2, 3, 2, 8), t), 2) for i, t in enumerate((k, v)))
    return attend(q, k, v, visible=lower(5, 7))


SINK: dict[str, Any] = {
    "sinks": True,
    "mask": frozenset({"causal"}),
    "visible": 0.6,
    "truth": sink_truth,
}

STYLES: tuple[Style, ...] = (
    Style(name="sink-column-learned", build=seeded(SinkColumn), **SINK),
    Style(
        name="sink-in-the-sum",
        build=seeded(SinkInSum),
        note="no column: exp of a learned score in the denominator alone",
        **SINK,
    ),
    Style(
        name="sink-column-of-zeros",
        build=core(zero_column),
        sinks=True,
        truth=usual(normalise=with_sink(torch.zeros(1))),
        note="the same function as softmax-off-by-one, written as a softmax with a sink of zero",
    ),
    Style(
        name="zero-key-appended",
        build=core(zero_token),
        keys=6,
        truth=zero_token_truth,
        note="an ordinary key of zeros, no sink column",
    ),
    Style(
        name="learned-key-appended",
        build=seeded(LearnedToken),
        keys=6,
        truth=learned_truth,
        note="an ordinary key that no token made, no sink column",
    ),
    Style(
        name="learned-memory-in-front",
        build=seeded(PersistentMemory),
        keys=7,
        mask=frozenset({"causal-bottom-right"}),
        visible=25 / 35,
        truth=memory_truth,
        note="the mask equals a causal one aligned to the last key",
    ),
)
