"""GPT-J in the layout (heads, length, batch, size), after a JAX code base."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.ports.case import QKV, SCORES, Pair, Port
from tests.ports.originals import HEADS, WIDTH, gptj, token_ids

SIZE = WIDTH // HEADS


class Dense(nn.Module):
    """A linear layer whose kernel lies (in, out)."""

    def __init__(self, theirs: Any) -> None:
        super().__init__()
        self.kernel = nn.Parameter(theirs.weight.T.clone())
        self.offset = nn.Parameter(theirs.bias.clone()) if theirs.bias is not None else None

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.kernel
        return y if self.offset is None else y + self.offset


class Heads(nn.Module):
    rotary = 4

    def __init__(self, theirs: Any) -> None:
        super().__init__()
        self.query, self.key = Dense(theirs.q_proj), Dense(theirs.k_proj)
        self.value, self.merge = Dense(theirs.v_proj), Dense(theirs.out_proj)

    def lay(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (HEADS, SIZE)).permute(2, 1, 0, 3)

    def table(self, length: int, start: int) -> tuple[Tensor, Tensor]:
        rates = 10000.0 ** (-torch.arange(0, self.rotary, 2) / self.rotary)
        angles = (torch.arange(start, start + length).float()[:, None] * rates)[:, None]
        return angles.sin(), angles.cos()

    def turn(self, x: Tensor, start: int = 0) -> Tensor:
        sin, cos = self.table(x.shape[1], start)
        front, rest = x[..., : self.rotary], x[..., self.rotary :]
        even, odd = front[..., ::2], front[..., 1::2]
        turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1)
        return torch.cat((turned.flatten(-2), rest), dim=-1)

    def both(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.turn(q), self.turn(k)

    def logits(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("hqbd,hkbd->hbqk", q, k) / SIZE**0.5

    def hide(self, logits: Tensor) -> Tensor:
        length = logits.shape[-1]
        future = torch.arange(length) > torch.arange(length)[:, None]
        return torch.where(future, torch.finfo(logits.dtype).min, logits)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.lay(self.query(x)), self.lay(self.key(x)), self.lay(self.value(x))
        shares = torch.softmax(self.hide(self.logits(*self.both(q, k))), dim=-1)
        mixed = torch.einsum("hbqk,hkbd->bqhd", shares, v)
        return self.merge(mixed.flatten(-2))


class Parallel(nn.Module):
    """Attention and feed-forward side by side, behind one norm."""

    def __init__(self, theirs: Any, heads: type[Heads]) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.norm.load_state_dict(theirs.ln_1.state_dict())
        self.heads = heads(theirs.attn)
        self.inner, self.outer = Dense(theirs.mlp.fc_in), Dense(theirs.mlp.fc_out)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.heads(y) + self.outer(F.gelu(self.inner(y), approximate="tanh"))


class NothingPasses(Parallel):
    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return self.heads(y) + self.outer(F.gelu(self.inner(y), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, theirs: Any, heads: type[Heads], layer: type[Parallel]) -> None:
        super().__init__()
        self.lookup = nn.Parameter(theirs.wte.weight.clone())
        self.layers = nn.ModuleList(layer(block, heads) for block in theirs.h)
        self.norm = nn.LayerNorm(WIDTH)
        self.norm.load_state_dict(theirs.ln_f.state_dict())

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.embedding(tokens, self.lookup)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def pair(heads: type[Heads] = Heads, layer: type[Parallel] = Parallel) -> Callable[[], Pair]:
    def make() -> Pair:
        original = gptj()
        return Pair(Model(original, heads, layer).eval(), original, (token_ids(),))

    return make


class Halves(Heads):
    def turn(self, x: Tensor, start: int = 0) -> Tensor:
        sin, cos = self.table(x.shape[1], start)
        a, b, rest = x.split((self.rotary // 2, self.rotary // 2, SIZE - self.rotary), dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), dim=-1)


class WholeHead(Heads):
    rotary = SIZE


class KeysAhead(Heads):
    def both(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.turn(q), self.turn(k, start=3)


class QueriesUnturned(Heads):
    def both(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q, self.turn(k)


class SmallBase(Heads):
    def table(self, length: int, start: int) -> tuple[Tensor, Tensor]:
        rates = 100.0 ** (-torch.arange(0, self.rotary, 2) / self.rotary)
        angles = (torch.arange(start, start + length).float()[:, None] * rates)[:, None]
        return angles.sin(), angles.cos()


class ScaledBySize(Heads):
    def logits(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("hqbd,hkbd->hbqk", q, k) / SIZE


class OwnTokenHidden(Heads):
    def hide(self, logits: Tensor) -> Tensor:
        length = logits.shape[-1]
        future = torch.arange(length) >= torch.arange(length)[:, None]
        return torch.where(future, torch.finfo(logits.dtype).min, logits)


class LaidByView(Heads):
    def lay(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], HEADS, x.shape[1], SIZE).permute(1, 2, 0, 3)


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"gptj-layouts-{name}",
        reference="GPT-J",
        style="heads first",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


PORTS = (
    fault("halves", pair(Halves), "rotary-pairing", QKV, "i + 2", "half"),
    fault("whole-head", pair(WholeHead), "rotary-share", QKV, "1", "8", "whole"),
    fault("keys-ahead", pair(KeysAhead), "positions-shifted", ("k", "raw_scores"), "by +3", "by 3"),
    fault("queries-unturned", pair(QueriesUnturned), "rotary-missing", ("q", "raw_scores"), "on q"),
    fault("small-base", pair(SmallBase), "rotary-base", QKV, "100"),
    fault("scaled-by-size", pair(ScaledBySize), "scale", SCORES, "1/head_dim"),
    fault("own-token-hidden", pair(OwnTokenHidden), "mask-shifted", ("scores",), "by -1", "by one"),
    fault("laid-by-view", pair(LaidByView), "heads-by-view", QKV, "view"),
    fault(
        "residual-lost",
        pair(layer=NothingPasses),
        "residual-missing",
        ("input",),
        "residual missing",
        "no residual",
        call=1,
    ),
)

SOUND = (Port(name="gptj-layouts-sound", reference="GPT-J", style="heads first", make=pair()),)
