"""GPT-2 the small way: one file, one class a part, scores by hand."""
# ruff: noqa: N806  B, T and C are what everybody calls them

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import QKV, SCORES, WEIGHTS, Pair, Port, Q
from .originals import gpt2, token_ids


class CausalSelfAttention(nn.Module):
    bias: Tensor
    bias_of_c_proj = True

    def __init__(self, n_embd: int, n_head: int, block_size: int) -> None:
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=self.bias_of_c_proj)
        self.n_head = n_head
        tril = torch.tril(torch.ones(block_size, block_size))
        self.register_buffer("bias", tril.view(1, 1, block_size, block_size), persistent=False)

    def qkv(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.c_attn(x).split(x.size(-1), dim=2)
        return q, k, v

    def heads(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        return x.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))

    def fill(self, att: Tensor) -> Tensor:
        T = att.size(-1)
        return att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))

    def weigh(self, att: Tensor) -> Tensor:
        return F.softmax(att, dim=-1)

    def mix(self, att: Tensor, k: Tensor, v: Tensor) -> Tensor:
        del k
        return att @ v

    def merge(self, y: Tensor) -> Tensor:
        B, n, T, d = y.size()
        return y.transpose(1, 2).contiguous().view(B, T, n * d)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.heads(part) for part in self.qkv(x))
        att = self.weigh(self.fill(self.scores(q, k)))
        return self.c_proj(self.merge(self.mix(att, k, v)))


class Block(nn.Module):
    def __init__(self, attn: CausalSelfAttention, n_embd: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = attn
        self.ln_2 = nn.LayerNorm(n_embd)
        self.c_fc = nn.Linear(n_embd, 4 * n_embd)
        self.c_proj = nn.Linear(4 * n_embd, n_embd)

    def feed(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.feed(self.ln_2(x))


class GPT(nn.Module):
    first_position = 0

    def __init__(
        self,
        config: Any,
        attn: type[CausalSelfAttention] = CausalSelfAttention,
        block: type[Block] = Block,
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.h = nn.ModuleList(
            block(attn(config.n_embd, config.n_head, config.n_positions), config.n_embd)
            for _ in range(config.n_layer)
        )
        self.ln_f = nn.LayerNorm(config.n_embd)

    def forward(self, idx: Tensor) -> Tensor:
        pos = torch.arange(idx.size(1)) + self.first_position
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


class Off(GPT):
    first_position = 1


def ported(
    original: Any,
    attn: type[CausalSelfAttention] = CausalSelfAttention,
    block: type[Block] = Block,
    gpt: type[GPT] = GPT,
    *,
    square_as_it_is: bool = False,
) -> GPT:
    """Copy the weights of the original, whose linear layers keep them (in, out)."""
    model = gpt(original.config, attn, block)
    ours = model.state_dict()
    for name, value in original.transformer.state_dict().items():
        short = name.replace("mlp.", "")
        if short not in ours:
            continue
        turned = value.ndim == 2 and "c_" in name
        if square_as_it_is and "attn.c_proj" in name:
            turned = False
        ours[short].copy_(value.T if turned else value)
    return model.eval()


def pair(
    attn: type[CausalSelfAttention] = CausalSelfAttention,
    block: type[Block] = Block,
    gpt: type[GPT] = GPT,
    *,
    square_as_it_is: bool = False,
) -> Callable[[], Pair]:
    def make() -> Pair:
        original = gpt2()
        model = ported(original, attn, block, gpt, square_as_it_is=square_as_it_is)
        return Pair(model, original, (token_ids(),))

    return make


class ValuesFirst(CausalSelfAttention):
    def qkv(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        v, q, k = self.c_attn(x).split(x.size(-1), dim=2)
        return q, k, v


class ScaledTwice(CausalSelfAttention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        d = q.size(-1)
        return (q / math.sqrt(d)) @ k.transpose(-2, -1) / math.sqrt(d)


class NotScaled(CausalSelfAttention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)


class SignLost(CausalSelfAttention):
    def fill(self, att: Tensor) -> Tensor:
        T = att.size(-1)
        return att.masked_fill(self.bias[:, :, :T, :T] == 0, 1e-9)


class MaskAdded(CausalSelfAttention):
    def fill(self, att: Tensor) -> Tensor:
        T = att.size(-1)
        return att + (self.bias[:, :, :T, :T] - 1)


class Dropping(CausalSelfAttention):
    def weigh(self, att: Tensor) -> Tensor:
        return F.dropout(F.softmax(att, dim=-1), p=0.1)


class OverTheQueries(CausalSelfAttention):
    def weigh(self, att: Tensor) -> Tensor:
        return F.softmax(att, dim=-2)


class Expected(CausalSelfAttention):
    def weigh(self, att: Tensor) -> Tensor:
        return F.softmax(att, dim=-1) / (1 - 0.1)


class ViewedIntoHeads(CausalSelfAttention):
    def heads(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        return x.contiguous().view(B, self.n_head, T, C // self.n_head)


class ViewedTogether(CausalSelfAttention):
    def merge(self, y: Tensor) -> Tensor:
        B, n, T, d = y.size()
        return y.contiguous().view(B, T, n * d)


class MixesKeys(CausalSelfAttention):
    def mix(self, att: Tensor, k: Tensor, v: Tensor) -> Tensor:
        del v
        return att @ k


class ScoresTurned(CausalSelfAttention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (k @ q.transpose(-2, -1)) / math.sqrt(k.size(-1))


class NoBias(CausalSelfAttention):
    bias_of_c_proj = False


class MaskedLate(CausalSelfAttention):
    def forward(self, x: Tensor) -> Tensor:
        T = x.size(1)
        q, k, v = (self.heads(part) for part in self.qkv(x))
        att = F.softmax(self.scores(q, k), dim=-1)
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, 0.0)
        return self.c_proj(self.merge(att @ v))


class PostNorm(Block):
    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x + self.attn(x))
        return self.ln_2(x + self.feed(x))


class AddsTwice(Block):
    def forward(self, x: Tensor) -> Tensor:
        x = x + (self.attn(self.ln_1(x)) + x)
        return x + self.feed(self.ln_2(x))


class Flash(CausalSelfAttention):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.heads(part) for part in self.qkv(x))
        return self.c_proj(self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class FilledLow(CausalSelfAttention):
    def fill(self, att: Tensor) -> Tensor:
        T = att.size(-1)
        return att.masked_fill(self.bias[:, :, :T, :T] == 0, -1e9)


class HeadByHead(CausalSelfAttention):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.heads(part) for part in self.qkv(x))
        y = [
            self.weigh(self.fill(self.scores(q[:, [h]], k[:, [h]]))) @ v[:, [h]]
            for h in range(self.n_head)
        ]
        return self.c_proj(self.merge(torch.cat(y, dim=1)))


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"gpt2-nano-{name}",
        reference="GPT-2",
        style="nano",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


def sound(name: str, make: Callable[[], Pair]) -> Port:
    return Port(name=f"gpt2-nano-{name}", reference="GPT-2", style="nano", make=make)


IN = ("input", *QKV)
PORTS = (
    fault("values-first", pair(ValuesFirst), "split-order", QKV, "split as", "order"),
    fault("scaled-twice", pair(ScaledTwice), "scale", (*Q, *SCORES), "1/head_dim"),
    fault("not-scaled", pair(NotScaled), "scale", SCORES, "head_dim"),
    fault("sign-lost", pair(SignLost), "mask-fill", ("scores",), "1e-09", "1e-9"),
    fault("mask-added", pair(MaskAdded), "mask-as-bias", ("scores",), "added", "bias"),
    fault("dropping", pair(Dropping), "dropout", ("weights",), "dropout"),
    fault("over-the-queries", pair(OverTheQueries), "softmax-axis", ("weights",), "quer"),
    fault("expected", pair(Expected), "weights-factor", ("weights", "context"), "1.11"),
    fault("viewed-into-heads", pair(ViewedIntoHeads), "heads-by-view", QKV, "view"),
    fault("viewed-together", pair(ViewedTogether), "merge-by-view", ("context", "output"), "view"),
    fault("mixes-keys", pair(MixesKeys), "k-for-v", ("v", "context"), "as k"),
    fault(
        "scores-turned",
        pair(ScoresTurned),
        "q-k-swapped",
        (*QKV, "scores"),
        "swap",
        also=("split-order",),  # the same arithmetic where the projection is fused
    ),
    fault("masked-late", pair(MaskedLate), "mask-after-softmax", WEIGHTS, "after"),
    fault("post-norm", pair(block=PostNorm), "norm-place", IN, "norm"),
    fault(
        "adds-twice",
        pair(block=AddsTwice),
        "residual-doubled",
        ("input", "output"),
        "residual added twice",
        "residual twice",
        call=1,
    ),
    fault("positions-from-one", pair(gpt=Off), "positions-shifted", IN, "by +1", "by 1"),
    fault(
        "square-as-it-is", pair(square_as_it_is=True), "weight-transposed", ("output",), "transpose"
    ),
    fault("no-bias", pair(NoBias), "projection-bias", ("output",), "bias", weights="keep"),
)

SOUND = (
    sound("sound", pair()),
    sound("flash", pair(Flash)),
    sound("filled-low", pair(FilledLow)),
    sound("head-by-head", pair(HeadByHead)),
)
