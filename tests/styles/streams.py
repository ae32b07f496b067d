"""Queries and keys from different places: cross-attention, caches, learned queries, channels."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, lower, noise, seeded, split, usual
from .truth import Style, Truth, attend


class Cross(nn.Module):
    """Queries from one stream, keys and values by one layer from another of another width."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q = nn.Linear(20, 24, bias=False)
        self.to_kv = nn.Linear(16, 48, bias=False)
        self.out = nn.Linear(24, 20)

    def forward(self, x: Tensor, *, context: Tensor) -> Tensor:
        """Attend from x to context."""
        h = 3
        q = self.to_q(x)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (t.view(*t.shape[:2], h, -1).transpose(1, 2).flatten(0, 1) for t in (q, k, v))
        sim = torch.einsum("b i d, b j d -> b i j", q, k) * 8**-0.5
        out = torch.einsum("b i j, b j d -> b i d", sim.softmax(dim=-1), v)
        return self.out(out.view(-1, h, *out.shape[1:]).transpose(1, 2).flatten(2))


def cross_truth(m: Any, inputs: Any) -> Truth:
    """Halves of the key/value layer."""
    assert isinstance(inputs, dict)
    k, v = (split(t, 3) for t in m.to_kv(inputs["context"]).chunk(2, dim=-1))
    return attend(split(m.to_q(inputs["x"]), 3), k, v)


class DecoderStep(nn.Module):
    """A recurrent decoder's step: its state is the only query, no query axis; values are keys."""

    def __init__(self) -> None:
        super().__init__()
        self.general = nn.Linear(20, 8, bias=False)
        self.out = nn.Linear(8, 20)

    def forward(self, state: Tensor, encoder_outputs: Tensor) -> Tensor:
        """Attend from state ``(batch, 20)`` to encoder_outputs ``(batch, keys, 8)``."""
        energies = torch.bmm(encoder_outputs, self.general(state).unsqueeze(2)).squeeze(2)
        weights = F.softmax(energies, dim=1)
        context = weights.unsqueeze(1).bmm(encoder_outputs)
        return self.out(context.squeeze(1))


def decoder_truth(m: Any, inputs: Any) -> Truth:
    """One head, one query, no scale."""
    state, outputs = inputs
    return attend(m.general(state)[:, None, None], outputs[:, None], outputs[:, None], 1.0)


class StaticCache(Projections):
    """A buffer of nine slots filled in place; a prompt of three, then one token more."""

    cache_k: Tensor
    cache_v: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache_k", torch.zeros(2, 3, 9, 8))
        self.register_buffer("cache_v", torch.zeros(2, 3, 9, 8))

    def step(self, x: Tensor, start: int) -> Tensor:
        """Attend from x, at positions from start, to everything in the cache."""
        end = start + x.shape[1]
        self.cache_k[:, :, start:end] = split(self.k(x), self.heads)
        self.cache_v[:, :, start:end] = split(self.v(x), self.heads)
        scores = split(self.q(x), self.heads) @ self.cache_k.mT / math.sqrt(self.head_dim)
        visible = torch.arange(9)[None, :] <= torch.arange(start, end)[:, None]
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        return self.out((scores.softmax(-1) @ self.cache_v).transpose(1, 2).flatten(2))

    @torch.no_grad()
    def forward(self, prompt: Tensor, token: Tensor) -> Tensor:
        """Run both steps, return the last."""
        self.step(prompt, 0)
        return self.step(token, prompt.shape[1])


def static_truth(m: Any, inputs: Any) -> Truth:
    """The second step: nine slots, four of them written."""
    full = torch.cat(inputs, dim=1)
    k, v = (F.pad(split(f(full), 3), (0, 0, 0, 5)) for f in (m.k, m.v))
    return attend(split(m.q(inputs[1]), 3), k, v, visible=torch.arange(9)[None] < 4)


class GrowingCache(Projections):
    """Keys and values concatenated to those of the step before."""

    def step(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Attend from x to past and x, causally."""
        q, k, v = (split(f(x), self.heads) for f in (self.q, self.k, self.v))
        if past is not None:
            k, v = torch.cat((past[0], k), dim=-2), torch.cat((past[1], v), dim=-2)
        attn = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        n, m = attn.shape[-2:]
        attn = attn.masked_fill(torch.ones(n, m).tril(m - n) == 0, float("-inf"))
        y = attn.softmax(-1) @ v
        return self.out(y.transpose(1, 2).flatten(2)), (k, v)

    def forward(self, prompt: Tensor, tokens: Tensor) -> Tensor:
        """Run both steps, return the last."""
        _, past = self.step(prompt)
        return self.step(tokens, past)[0]


def growing_truth(m: Any, inputs: Any) -> Truth:
    """The second step: two queries, six keys."""
    full = torch.cat(inputs, dim=1)
    k, v = split(m.k(full), 3), split(m.v(full), 3)
    return attend(split(m.q(inputs[1]), 3), k, v, visible=lower(2, 6))


class LearnedQueries(Projections):
    """Pooling by four learned queries, expanded over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 4, 20))

    def forward(self, x: Tensor) -> Tensor:
        """Pool x ``(batch, tokens, width)`` into ``(batch, 4, width)``."""
        q = split(self.q(self.queries.expand(len(x), -1, -1)), self.heads)
        k, v = split(self.k(x), self.heads), split(self.v(x), self.heads)
        return self.out((q @ k.mT / 8**0.5).softmax(-1).matmul(v).transpose(1, 2).flatten(2))


def pooling_truth(m: Any, inputs: Any) -> Truth:
    """Queries repeated for each sample."""
    (x,) = inputs
    return attend(split(m.q(m.queries.repeat(2, 1, 1)), 3), split(m.k(x), 3), split(m.v(x), 3))


class BareQueries(Projections):
    """Learned queries that no layer projects and the batch does not repeat."""

    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(3, 4, 8))

    def forward(self, x: Tensor) -> Tensor:
        """Pool x into four tokens."""
        k, v = split(self.k(x), self.heads), split(self.v(x), self.heads)
        weights = torch.einsum("hqd,bhkd->bhqk", self.latents, k).div(8**0.5).softmax(dim=-1)
        return self.out(torch.einsum("bhqk,bhkd->bqhd", weights, v).flatten(2))


def bare_truth(m: Any, inputs: Any) -> Truth:
    """Queries given a batch axis."""
    (x,) = inputs
    return attend(m.latents.expand(2, -1, -1, -1), split(m.k(x), 3), split(m.v(x), 3))


class ResamplerLatents(LearnedQueries):
    """Latents see the input and themselves: keys are both, concatenated."""

    def forward(self, x: Tensor) -> Tensor:
        """Pool x into four tokens."""
        latents = self.queries.repeat(x.shape[0], 1, 1)
        q = split(self.q(latents) * 8**-0.5, self.heads)
        kv_input = torch.cat((x, latents), dim=-2)
        k, v = split(self.k(kv_input), self.heads), split(self.v(kv_input), self.heads)
        sim = torch.einsum("...id,...jd->...ij", q, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        out = torch.einsum("...ij,...jd->...id", sim.softmax(dim=-1), v)
        return self.out(out.transpose(1, 2).flatten(2))


def resampler_truth(m: Any, inputs: Any) -> Truth:
    """Nine keys."""
    latents = m.queries.repeat(2, 1, 1)
    both = torch.cat((inputs[0], latents), dim=1)
    return attend(split(m.q(latents), 3), split(m.k(both), 3), split(m.v(both), 3))


class Channels(Projections):
    """Features attend to features: tokens are what is summed over."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend among the features of each head."""
        q, k, v = (split(f(x), self.heads).transpose(-2, -1) for f in (self.q, self.k, self.v))
        attn = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)) * 3.0
        x = (attn.softmax(dim=-1) @ v).permute(0, 3, 1, 2).flatten(2)
        return self.out(x)


def channels_truth(m: Any, inputs: Any) -> Truth:
    """Eight queries and keys of width five."""
    q, k, v = (split(f(inputs[0]), 3).mT for f in (m.q, m.k, m.v))
    return attend(q / q.norm(dim=-1, keepdim=True), k / k.norm(dim=-1, keepdim=True), v, 3.0)


class Block(nn.Module):
    """A decoder block: causal self-attention, then cross-attention, then a feed-forward net."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = GrowingCache()
        self.cross_attn = Cross()
        self.ff = nn.Sequential(nn.Linear(20, 40), nn.GELU(), nn.Linear(40, 20))

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """Run the block."""
        x = x + self.self_attn.step(x)[0]
        x = x + self.cross_attn(x, context=context)
        return x + self.ff(x)


def block_truth(m: Any, inputs: Any) -> Truth:
    """The cross-attention, after the self-attention."""
    x, context = inputs
    own = usual(visible=lower())(m.self_attn, (x,))
    x = x + m.self_attn.out(own.merged)
    return cross_truth(m.cross_attn, {"x": x, "context": context})


class Beams(Projections):
    """Three hypotheses of each sample read its memory, repeated for each along the batch."""

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """Attend from x ``(batch * 3, tokens, width)`` to memory ``(batch, keys, width)``."""
        memory, lengths = (t.repeat_interleave(3, dim=0) for t in (memory, lengths))
        q, k, v = split(self.q(x), 3), split(self.k(memory), 3), split(self.v(memory), 3)
        padded = torch.arange(memory.shape[1])[None, :] >= lengths[:, None]
        scores = (q @ k.mT / 8**0.5).masked_fill(padded[:, None, None], -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def beams_truth(m: Any, inputs: Any) -> Truth:
    """Each hypothesis is a sample of its own; kv heads are as many as heads."""
    x, memory, lengths = inputs
    memory, lengths = memory.repeat_interleave(3, 0), lengths.repeat_interleave(3)
    visible = (torch.arange(7) < lengths[:, None])[:, None, None]
    q, k, v = split(m.q(x), 3), split(m.k(memory), 3), split(m.v(memory), 3)
    return attend(q, k, v, visible=visible)


STYLES: tuple[Style, ...] = (
    Style(
        name="beams-over-repeated-memory", build=seeded(Beams), batch=6, keys=7,
        inputs=lambda: (noise(6, 5, 20), noise(2, 7, 20, seed=3), torch.tensor([7, 4])),
        mask=frozenset({"padding"}), visible=11 / 14, truth=beams_truth,
    ),
    Style(
        name="cross-attention-keyword", build=seeded(Cross), keys=7, truth=cross_truth,
        inputs=lambda: {"x": noise(2, 5, 20), "context": noise(2, 7, 16, seed=3)},
    ),
    Style(
        name="decoder-step-no-query-axis", build=seeded(DecoderStep), heads=1, kv_heads=1,
        inputs=lambda: (noise(2, 20), noise(2, 7, 8, seed=3)), queries=1, keys=7, scale=1.0,
        truth=decoder_truth, output=lambda m, t: m.out(t.read[:, 0, 0]),
    ),
    Style(
        name="cache-in-place", build=seeded(StaticCache), calls=2, queries=1, keys=9,
        inputs=lambda: (noise(2, 3, 20), noise(2, 1, 20, seed=3)),
        mask=frozenset({"padding"}), visible=4 / 9, truth=static_truth,
        note="one query sees the four written slots of nine",
    ),
    Style(
        name="cache-concatenated", build=seeded(GrowingCache), calls=2, queries=2, keys=6,
        inputs=lambda: (noise(2, 4, 20), noise(2, 2, 20, seed=3)),
        mask=frozenset({"causal-bottom-right"}), visible=11 / 12, truth=growing_truth,
    ),
    Style(name="learned-queries", build=seeded(LearnedQueries), queries=4, truth=pooling_truth),
    Style(name="learned-queries-bare", build=seeded(BareQueries), queries=4, truth=bare_truth),
    Style(
        name="learned-queries-resampler", build=seeded(ResamplerLatents), queries=4, keys=9,
        truth=resampler_truth,
    ),
    Style(
        name="channels-as-tokens", build=seeded(Channels), queries=8, keys=8, head_dim=5,
        value_dim=5, scale=3.0, truth=channels_truth,
        output=lambda m, t: m.out(t.read.permute(0, 3, 1, 2).flatten(2)),
    ),
    Style(
        name="decoder-block", build=seeded(Block), calls=2, keys=7,
        inputs=lambda: (noise(2, 5, 20), noise(2, 7, 16, seed=3)), truth=block_truth, output=None,
    ),
)  # fmt: skip
