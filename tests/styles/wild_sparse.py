"""Keys chosen, cached, sorted or shifted: what each query sees is put together first."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from collections import deque
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, core, merge, noise, seeded, split, usual
from .truth import Inputs, Style, Truth, attend, raw_scores


def scattered(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The three best scores are scattered into rows of -inf."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(8)
    best, index = torch.topk(scores, k=3, dim=-1)
    sparse = torch.full_like(scores, float("-inf")).scatter_(-1, index, best)
    return torch.matmul(F.softmax(sparse, dim=-1), v)


def gathered(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A softmax over the three best scores; their values are gathered."""
    best, index = (q @ k.mT * 8**-0.5).topk(3, dim=-1)
    chosen = v.unsqueeze(2).expand(-1, -1, 5, -1, -1)
    chosen = chosen.gather(3, index.unsqueeze(-1).expand(-1, -1, -1, -1, 8))
    return torch.einsum("bhqt,bhqtd->bhqd", best.softmax(dim=-1), chosen)


def keys_gathered(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys and values of given places a query, fetched by indexing; then a usual product."""
    ks, vs = k[:, :, PLACES], v[:, :, PLACES]  # (b, h, q, 3, d)
    scores = torch.matmul(q.unsqueeze(-2), ks.transpose(-1, -2)) * 8**-0.5
    return torch.matmul(scores.softmax(-1), vs).squeeze(-2)


PLACES = torch.tensor([[0, 1, 4], [2, 1, 3], [4, 0, 2], [3, 3, 1], [1, 2, 0]])


def fetched_truth(m: Any, inputs: Any) -> Truth:
    """Queries folded into the batch, three keys each."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    k, v = (t[:, :, PLACES].transpose(1, 2).flatten(0, 1) for t in (k, v))
    return attend(q.transpose(1, 2).flatten(0, 1)[:, :, None], k, v)


def rolled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Neighbours by rolling: three products a query, stacked; three rolled values, summed."""
    scores = torch.stack([(q * k.roll(s, 2)).sum(-1) for s in (1, 0, -1)], dim=-1) * 8**-0.5
    weights = scores.softmax(dim=-1)
    return sum(
        (weights[..., i, None] * v.roll(s, 2) for i, s in enumerate((1, 0, -1))),
        torch.zeros_like(v),
    )


def rolled_truth(m: Any, inputs: Any) -> Truth:
    """Each query folded into the batch with its three neighbours on the ring."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    ring = (torch.arange(5)[:, None] + torch.tensor([-1, 0, 1])) % 5
    k, v = (t[:, :, ring].transpose(1, 2).flatten(0, 1) for t in (k, v))
    return attend(q.transpose(1, 2).flatten(0, 1)[:, :, None], k, v)


def tokens_out(m: Any, truth: Truth) -> Tensor:
    """One query a batch entry."""
    return m.out(truth.read.flatten(1)).view(2, 5, 20)


def best_three(m: Any, inputs: Any) -> Tensor:
    """Ranks below three."""
    scores = raw_scores(split(m.q(inputs[0]), 3), split(m.k(inputs[0]), 3))
    return scores.argsort(-1, descending=True).argsort(-1) < 3


class SortedBuckets(Projections):
    """Shared queries and keys, sorted by a hash, chunked; never itself unless alone."""

    rotations: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rotations", noise(8, 2, seed=8))

    def order(self, qk: Tensor) -> Tensor:
        """Places sorted by the bucket of a random rotation."""
        turned = torch.einsum("bhtd,df->bhtf", qk, self.rotations)
        buckets = torch.argmax(torch.cat([turned, -turned], dim=-1), dim=-1)
        return (qk.shape[2] * buckets + torch.arange(qk.shape[2])).argsort(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within sorted chunks of four."""
        qk, v = split(self.q(x), 3), split(self.v(x), 3)
        order = self.order(qk)
        undo = order.argsort(dim=-1)
        wide = order.unsqueeze(-1).expand(-1, -1, -1, 8)
        sqk, sv = (t.gather(2, wide).view(2, 3, 3, 4, 8) for t in (qk, v))
        keys = F.normalize(sqk, p=2, dim=-1)
        dots = torch.einsum("bhnid,bhnjd->bhnij", sqk, keys) * 8**-0.5
        dots = dots.masked_fill(torch.eye(4, dtype=torch.bool), -5e4)
        dots = torch.exp(dots - torch.logsumexp(dots, dim=-1, keepdim=True))
        so = torch.einsum("bhnij,bhnjd->bhnid", dots, sv).reshape(2, 3, 12, 8)
        return self.out(merge(so.gather(2, undo.unsqueeze(-1).expand_as(so))))


def sorted_truth(m: Any, inputs: Any) -> Truth:
    """Chunks folded into the batch."""
    qk, v = split(m.q(inputs[0]), 3), split(m.v(inputs[0]), 3)
    order = m.order(qk)[..., None].expand(-1, -1, -1, 8)
    q, v = (t.gather(2, order).unflatten(2, (3, 4)).transpose(1, 2) for t in (qk, v))
    q, v = q.flatten(0, 1), v.flatten(0, 1)
    return attend(q, F.normalize(q, dim=-1), v, visible=~torch.eye(4, dtype=torch.bool))


class Decoder(Projections):
    """Step by step; where keys and values are kept is what differs."""

    def __init__(self, keep: str) -> None:
        super().__init__()
        self.keep = keep

    @torch.no_grad()
    def forward(self, tokens: Tensor) -> Tensor:
        """Decode all tokens, return the last output."""
        length = 3 if self.keep == "deque" else None
        keys: deque[Tensor] = deque(maxlen=length)
        values: deque[Tensor] = deque(maxlen=length)
        buffer_k, buffer_v = torch.zeros(2, 3, 8, 8), torch.zeros(2, 3, 8, 8)
        y = tokens[:, :1]
        for t in range(tokens.shape[1]):
            q, k, v = (split(f(tokens[:, t : t + 1]), 3) for f in (self.q, self.k, self.v))
            if self.keep == "preallocated":
                place = torch.tensor([t])
                buffer_k.index_copy_(2, place, k)
                buffer_v.index_copy_(2, place, v)
                k_all, v_all = buffer_k[:, :, : t + 1], buffer_v[:, :, : t + 1]
            elif self.keep == "stacked":
                keys.append(k.squeeze(2))
                values.append(v.squeeze(2))
                k_all, v_all = torch.stack(list(keys), 2), torch.stack(list(values), dim=2)
            else:
                keys.append(k)
                values.append(v)
                k_all, v_all = torch.cat(list(keys), dim=2), torch.cat(tuple(values), dim=-2)
            weights = torch.softmax(q @ k_all.transpose(-1, -2) / math.sqrt(8), dim=-1)
            y = self.out(merge(weights @ v_all))
        return y


def decoder_truth(window: int) -> Any:
    """The last token against the last ``window`` ones."""

    def truth(m: Any, inputs: Any) -> Truth:
        q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
        return attend(q[:, :, -1:], k[:, :, -window:], v[:, :, -window:])

    return truth


class Beams(Projections):
    """Two beams a sample; the cache is reordered before a step."""

    @torch.no_grad()
    def forward(self, past: Tensor, token: Tensor, beam_idx: Tensor) -> Tensor:
        """One step from token ``(beams, 1, width)``."""
        cache = [split(f(past), 3) for f in (self.k, self.v)]
        cache = [t.index_select(0, beam_idx) for t in cache]
        k = torch.cat([cache[0], split(self.k(token), 3)], dim=2)
        v = torch.cat([cache[1], split(self.v(token), 3)], dim=2)
        scores = torch.matmul(split(self.q(token), 3), k.transpose(3, 2)) / 8**0.5
        return self.out(merge(torch.matmul(nn.functional.softmax(scores, dim=-1), v)))


ORDER = torch.tensor([1, 1, 2, 3])


def beams() -> Inputs:
    """Four beams, four past tokens."""
    return noise(4, 4, 20), noise(4, 1, 20, seed=3), ORDER


def beams_truth(m: Any, inputs: Any) -> Truth:
    """Past in the new order, then the token."""
    past, token, order = inputs
    full = torch.cat((past[order], token), 1)
    return attend(split(m.q(token), 3), split(m.k(full), 3), split(m.v(full), 3))


class Luong(nn.Module):
    """A translator's general score, sequence first: a product summed over features."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.Linear(20, 20)

    def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> Tensor:
        """Read encoder_outputs ``(tokens, batch, width)`` for hidden ``(1, batch, width)``."""
        energy = self.attn(encoder_outputs)
        attn_energies = torch.sum(hidden * energy, dim=2).t()
        weights = F.softmax(attn_energies, dim=1).unsqueeze(1)
        return weights.bmm(encoder_outputs.transpose(0, 1)).squeeze(1)


def luong_truth(m: Any, inputs: Any) -> Truth:
    """One head, one query."""
    hidden, encoder = inputs
    k, v = m.attn(encoder).transpose(0, 1)[:, None], encoder.transpose(0, 1)[:, None]
    return attend(hidden.transpose(0, 1)[:, None], k, v, 1.0)


STEP: dict[str, Any] = {"queries": 1, "inputs": lambda: (noise(2, 5, 20),), "calls": 5}

STYLES: tuple[Style, ...] = (
    Style(
        name="top-three-scattered", build=core(scattered), mask=frozenset({"custom"}),
        visible=0.6, truth=usual(visible=best_three),
    ),
    Style(
        name="top-three-gathered", build=core(gathered), mask=frozenset({"custom"}),
        visible=0.6, truth=usual(visible=best_three),
        note="scores and values of the best three only; others never meet the softmax",
    ),
    Style(
        name="keys-fetched-by-index", build=core(keys_gathered), batch=10, queries=1, keys=3,
        truth=fetched_truth, output=tokens_out,
    ),
    Style(
        name="neighbours-by-rolling", build=core(rolled), batch=10, queries=1, keys=3,
        truth=rolled_truth, output=tokens_out,
        note="three products and three sums; the keys exist only as rolled copies",
    ),
    Style(
        name="sorted-buckets", build=seeded(SortedBuckets), inputs=lambda: (noise(2, 12, 20),),
        batch=6, queries=4, keys=4, mask=frozenset({"custom"}), visible=0.75,
        truth=sorted_truth, output=None,
    ),
    Style(
        name="cache-list", build=seeded(Decoder, "list"), truth=decoder_truth(5), **STEP,
    ),
    Style(
        name="cache-stacked", build=seeded(Decoder, "stacked"), truth=decoder_truth(5), **STEP,
    ),
    Style(
        name="cache-window", build=seeded(Decoder, "deque"), keys=3, truth=decoder_truth(3),
        **STEP,
    ),
    Style(
        name="cache-index-copy", build=seeded(Decoder, "preallocated"), truth=decoder_truth(5),
        **STEP,
    ),
    Style(
        name="cache-of-beams", build=seeded(Beams), inputs=beams, batch=4, queries=1,
        truth=beams_truth,
    ),
    Style(
        name="decoder-luong-general", build=seeded(Luong), heads=1, kv_heads=1, queries=1,
        keys=7, head_dim=20, value_dim=20, scale=1.0,
        inputs=lambda: (noise(1, 2, 20), noise(7, 2, 20, seed=3)), truth=luong_truth,
        output=lambda _, t: t.read[:, 0, 0],
    ),
)  # fmt: skip
