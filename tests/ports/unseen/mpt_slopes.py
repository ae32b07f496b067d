"""MPT with its bias as one matrix a head, made at the start and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.ports.case import Pair, Port
from tests.ports.originals import HEADS, LENGTH, WIDTH, mpt, token_ids


def falling(length: int, *slopes: float) -> Tensor:
    """Return minus slope times distance, ``(heads, length, length)``."""
    at = torch.arange(length, dtype=torch.float)
    return -torch.tensor(slopes)[:, None, None] * (at[:, None] - at)


RIGHT = falling(LENGTH, *(2.0 ** (-8 * (h + 1) / HEADS) for h in range(HEADS)))


class Block(nn.Module):
    bias: Tensor

    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = (nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        hidden = torch.full((LENGTH, LENGTH), -torch.inf).triu(1)
        self.register_buffer("bias", bias + hidden, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, HEADS, -1)).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias.expand(len(x), -1, -1, -1))
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Mpt(nn.Module):
    def __init__(self, config: Any, bias: Tensor) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, WIDTH)
        self.blocks = nn.ModuleList(Block(bias) for _ in range(config.n_layers))
        self.norm_f = nn.LayerNorm(WIDTH, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm_f(x)


NAMES = {"attn.Wqkv": "qkv", "attn.out_proj": "proj", "ffn.up_proj": "up", "ffn.down_proj": "down"}


def pair(bias: Tensor) -> Callable[[], Pair]:
    def make() -> Pair:
        original = mpt()
        state = {}
        for name, value in original.state_dict().items():
            short = name
            for theirs, ours in NAMES.items():
                short = short.replace(theirs, ours)
            state[short] = value
        model = Mpt(original.config, bias)
        model.load_state_dict(state)
        return Pair(model.eval(), original, (token_ids(),))

    return make


def fault(name: str, bias: Tensor, key: str, *says: str, also: tuple[str, ...] = ()) -> Port:
    return Port(
        name=f"mpt-slopes-{name}",
        reference="MPT",
        style="bias in the mask",
        make=pair(bias),
        key=key,
        stages=("scores",),
        says=says,
        also=also,
    )


PORTS = (
    fault("rising", -RIGHT, "bias-sign", "sign"),
    fault("powers-of-a-half", falling(LENGTH, 0.5, 0.25, 0.125, 0.0625), "bias-slope", "slope"),
    fault("doubled", 2 * RIGHT, "bias-slope", "2 times"),
    fault("none", 0 * RIGHT, "bias-missing", "bias"),
    fault("heads-backwards", RIGHT.flip(0), "bias-slope", "slope", "head", also=("bias-heads",)),
)

SOUND = (
    Port(name="mpt-slopes-sound", reference="MPT", style="bias in the mask", make=pair(RIGHT)),
)
