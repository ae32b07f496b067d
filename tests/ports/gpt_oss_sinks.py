"""The attention of GPT-OSS over groups of query heads, with its sinks in the denominator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import QKV, WEIGHTS, Pair, Port
from .originals import LENGTH, gpt_oss_attention, hidden

WINDOW = 4


def phases() -> tuple[Tensor, Tensor]:
    """Cosines and sines ``(1, length, head_dim / 2)``, as the model hands them to each layer."""
    angles = torch.outer(torch.arange(LENGTH).float(), 150.0 ** -(torch.arange(4) / 4))[None]
    return angles.cos(), angles.sin()


def window_mask() -> Tensor:
    """Return 0 where a query may attend, the lowest number elsewhere."""
    ago = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    hidden_keys = (ago < 0) | (ago >= WINDOW)
    return torch.zeros(1, 1, LENGTH, LENGTH).masked_fill(hidden_keys, torch.finfo().min)


class SinkAttention(nn.Module):
    """Query heads as ``(kv_heads, group)``; keys and values are never repeated."""

    sinks: nn.Parameter

    def __init__(self, kv: int = 2, group: int = 2, size: int = 8, width: int = 32) -> None:
        super().__init__()
        self.kv, self.group, self.size = kv, group, size
        self.q = nn.Linear(width, kv * group * size)
        self.kv_proj = nn.Linear(width, 2 * kv * size)
        self.out = nn.Linear(kv * group * size, width)
        self.sinks = nn.Parameter(torch.zeros(kv * group))

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        cos, sin = (t.view(*t.shape[:2], *([1] * (x.ndim - 3)), -1) for t in (cos, sin))
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def weigh(self, scores: Tensor) -> Tensor:
        """Softmax in which each head's sink takes its share and meets no value."""
        sinks = self.sinks.view(1, self.kv, self.group, 1, 1)
        top = torch.maximum(scores.amax(-1, keepdim=True), sinks)
        powers = (scores - top).exp()
        return powers / (powers.sum(-1, keepdim=True) + (sinks - top).exp())

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor,
    ) -> Tensor:
        shape = hidden_states.shape[:2]
        q = self.q(hidden_states).view(*shape, self.kv, self.group, self.size)
        k, v = self.kv_proj(hidden_states).view(*shape, 2, self.kv, self.size).unbind(2)
        q, k = self.rotate(q, *position_embeddings), self.rotate(k, *position_embeddings)
        scores = torch.einsum("bqngd,bknd->bngqk", q, k) / math.sqrt(self.size)
        weights = self.weigh(scores + attention_mask[:, None])
        context = torch.einsum("bngqk,bknd->bqngd", weights, v)
        return self.out(context.flatten(2))


@torch.no_grad()
def fill(module: SinkAttention, original: Any) -> None:
    module.q.load_state_dict(original.q_proj.state_dict())
    module.out.load_state_dict(original.o_proj.state_dict())
    for name in ("weight", "bias"):
        parts = [getattr(original.k_proj, name), getattr(original.v_proj, name)]
        getattr(module.kv_proj, name).copy_(torch.cat(parts))
    module.sinks.copy_(original.sinks)


def pair(attention: type[SinkAttention] = SinkAttention) -> Callable[[], Pair]:
    def make() -> Pair:
        original = gpt_oss_attention()
        module = attention().eval()
        fill(module, original)
        inputs = {
            "hidden_states": hidden(),
            "position_embeddings": phases(),
            "attention_mask": window_mask(),
        }
        return Pair(module, original, inputs)

    return make


class NoSinks(SinkAttention):
    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)


class SinkOfZero(SinkAttention):
    """The sink is one for everybody: a one in the denominator."""

    def weigh(self, scores: Tensor) -> Tensor:
        top = scores.amax(-1, keepdim=True).clamp(min=0)
        powers = (scores - top).exp()
        return powers / (powers.sum(-1, keepdim=True) + (-top).exp())


class HalfTheSinks(SinkAttention):
    """One sink a group: the first head's."""

    def weigh(self, scores: Tensor) -> Tensor:
        sinks = self.sinks.view(1, self.kv, self.group, 1, 1)[:, :, :1].expand(
            *scores.shape[:-1], 1
        )
        return torch.cat((scores, sinks), dim=-1).softmax(-1)[..., :-1]


class GroupsFirst(SinkAttention):
    """Query heads are taken as (group, kv_heads): kv heads come in turn."""

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor,
    ) -> Tensor:
        shape = hidden_states.shape[:2]
        q = self.q(hidden_states).view(*shape, self.group, self.kv, self.size)
        k, v = self.kv_proj(hidden_states).view(*shape, 2, self.kv, self.size).unbind(2)
        q, k = self.rotate(q, *position_embeddings), self.rotate(k, *position_embeddings)
        scores = torch.einsum("bqgnd,bknd->bgnqk", q, k) / math.sqrt(self.size)
        scores = (scores + attention_mask[:, None]).flatten(1, 2)
        sinks = self.sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        weights = torch.cat((scores, sinks), dim=-1).softmax(-1)[..., :-1]
        weights = weights.unflatten(1, (self.group, self.kv))
        context = torch.einsum("bgnqk,bknd->bqgnd", weights, v)
        return self.out(context.flatten(2))


class ColumnOfSinks(SinkAttention):
    def weigh(self, scores: Tensor) -> Tensor:
        sinks = self.sinks.view(1, self.kv, self.group, 1, 1).expand(*scores.shape[:-1], 1)
        return torch.cat((scores, sinks), dim=-1).softmax(-1)[..., :-1]


class SinkByLogSumExp(SinkAttention):
    """The share is taken after an ordinary softmax, by a sigmoid of log-sum-exp less sink."""

    def weigh(self, scores: Tensor) -> Tensor:
        sinks = self.sinks.view(1, self.kv, self.group, 1, 1)
        return scores.softmax(-1) * (scores.logsumexp(-1, keepdim=True) - sinks).sigmoid()


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"gpt-oss-groups-{name}",
        reference="GPT-OSS attention",
        style="einsum over groups",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


def sound(name: str, make: Callable[[], Pair]) -> Port:
    return Port(
        name=f"gpt-oss-groups-{name}",
        reference="GPT-OSS attention",
        style="einsum over groups",
        make=make,
    )


TILED = ("k", "v", *QKV)
PORTS = (
    fault("no-sinks", pair(NoSinks), "sinks", WEIGHTS, "sink"),
    fault("sink-of-zero", pair(SinkOfZero), "sinks", WEIGHTS, "sink", also=("normaliser",)),
    fault("half-the-sinks", pair(HalfTheSinks), "sinks", WEIGHTS, "sink"),
    fault("groups-first", pair(GroupsFirst), "kv-heads-tiled", TILED, "tile"),
)

SOUND = (
    sound("sound", pair()),
    sound("column-of-sinks", pair(ColumnOfSinks)),
    sound("sink-by-log-sum-exp", pair(SinkByLogSumExp)),
)
