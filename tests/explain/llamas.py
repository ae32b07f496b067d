"""A Llama and a GPT-2 written by hand, every step a method that a test can put a fault into."""

# Calling a module of torch returns Any; people return it as it is.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.targets.architectures import build

__all__ = ["Cross", "Encoder", "Gpt", "HandEncoder", "HandWritten", "Llama", "Qwen", "with_faults"]


def shaken(model: nn.Module) -> Any:
    """Give every parameter values of its own: no bias is zero, no norm weight one."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            size = 0.3 if parameter.ndim == 1 else 0.25
            parameter.add_(size * torch.randn(parameter.shape, generator=generator))
    return model


def with_faults(model: HandWritten, **faults: Callable[..., Any]) -> HandWritten:
    """Return the same model with methods replaced; each receives the model first."""
    other = copy.deepcopy(model)
    for name, fault in faults.items():
        setattr(other, name, fault.__get__(other))
    return other


class HandWritten(nn.Module):
    """A module that says what it is run with.

    own: the model whose parameters it uses, where that is another one.
    """

    inputs: dict[str, Any]
    own: Any


class Llama(HandWritten):
    """The parameters of the architecture "llama", used by einsum and by hand."""

    heads: int
    kv_heads: int
    size: int
    eps: float

    def __init__(self, name: str = "llama") -> None:
        super().__init__()
        target = build(name)
        self.inputs = target.inputs
        self.own = shaken(target.model)
        config: Any = target.model.config
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.size, self.eps = config.head_dim, config.rms_norm_eps
        self.base, self.pairing, self.share = 10000.0, "half", 1.0

    def angles(self, positions: Tensor, width: int) -> Tensor:
        step = self.base ** (-torch.arange(0, width, 2).float() / width)
        return positions[..., None].float() * step

    def positions(self, x: Tensor, name: str) -> Tensor:
        del name
        return torch.arange(x.shape[2])

    def rotate(self, x: Tensor, name: str) -> Tensor:
        if name == "v":
            return x
        width = int(x.shape[-1] * self.share)
        angles = self.angles(self.positions(x, name), width)
        return self.turned(x, angles.cos(), angles.sin(), width)

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor, width: int) -> Tensor:
        turned, left = x[..., :width], x[..., width:]
        if self.pairing == "half":
            first, second = turned.chunk(2, -1)
            new = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
        else:
            first, second = turned[..., ::2], turned[..., 1::2]
            pair = (first * cos - second * sin, first * sin + second * cos)
            new = torch.stack(pair, -1).flatten(-2)
        return torch.cat((new, left), -1)

    def weight(self, layer: Any, name: str) -> Tensor:
        return getattr(layer.self_attn, f"{name}_proj").weight

    def split(self, x: Tensor, heads: int, name: str) -> Tensor:
        del name
        return x.view(*x.shape[:2], heads, self.size).transpose(1, 2)

    def project(self, x: Tensor, layer: Any, name: str) -> Tensor:
        heads = self.heads if name == "q" else self.kv_heads
        made = torch.einsum("btd,ed->bte", x, self.weight(layer, name))
        return self.rotate(self.split(made, heads, name), name)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)

    def normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * weight

    def added(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch

    def act(self, x: Tensor) -> Tensor:
        return F.silu(x)

    def attend(self, x: Tensor, layer: Any) -> Tensor:
        q, k, v = (self.project(x, layer, name) for name in "qkv")
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.merge(context) @ layer.self_attn.o_proj.weight.T

    def block(self, x: Tensor, layer: Any) -> Tensor:
        attended = self.attend(self.normed(x, layer.input_layernorm.weight), layer)
        x = self.added(x, attended)
        inner = self.normed(x, layer.post_attention_layernorm.weight)
        mlp = layer.mlp
        hidden = self.act(F.linear(inner, mlp.gate_proj.weight)) * F.linear(
            inner, mlp.up_proj.weight
        )
        return self.added(x, F.linear(hidden, mlp.down_proj.weight))

    def embed(self, ids: Tensor) -> Tensor:
        return self.own.model.embed_tokens.weight[ids]

    def forward(self, input_ids: Tensor, **_: Any) -> Tensor:
        x = self.embed(input_ids)
        for layer in self.own.model.layers:
            x = self.block(x, layer)
        return F.linear(self.normed(x, self.own.model.norm.weight), self.own.lm_head.weight)


class Gpt(HandWritten):
    """The parameters of the architecture "gpt2", a fused projection and scores by hand."""

    heads: int

    def __init__(self) -> None:
        super().__init__()
        target = build("gpt2")
        self.inputs = target.inputs
        self.own = shaken(target.model).eval()
        self.heads = self.own.config.n_head

    def biased(self, x: Tensor, layer: Any) -> Tensor:
        return x @ layer.weight + layer.bias

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.chunk(3, -1)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3)

    def merge(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 1, 3).flatten(2)

    def normed(self, x: Tensor, layer: Any) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], layer.weight, layer.bias, 1e-5)

    def attend(self, x: Tensor, layer: Any) -> Tensor:
        q, k, v = (self.split(part) for part in self.parts(self.biased(x, layer.c_attn)))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return self.biased(self.merge(weights @ v), layer.c_proj)

    def act(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh")

    def block(self, x: Tensor, layer: Any) -> Tensor:
        x = x + self.attend(self.normed(x, layer.ln_1), layer.attn)
        inner = self.act(self.biased(self.normed(x, layer.ln_2), layer.mlp.c_fc))
        return x + self.biased(inner, layer.mlp.c_proj)

    def places(self, length: int) -> Tensor:
        return self.own.transformer.wpe.weight[:length]

    def embed(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.own.transformer.wte.weight) + self.places(ids.shape[1])

    def forward(self, input_ids: Tensor, **_: Any) -> Tensor:
        x = self.embed(input_ids)
        for layer in self.own.transformer.h:
            x = self.block(x, layer)
        x = self.normed(x, self.own.transformer.ln_f)
        return x @ self.own.transformer.wte.weight.T


class Qwen(Llama):
    """The parameters of the architecture "qwen3": each head of q and k has a norm."""

    def __init__(self) -> None:
        super().__init__("qwen3")

    def headed(self, x: Tensor, layer: Any, name: str) -> Tensor:
        if name == "v":
            return x
        return self.normed(x, getattr(layer.self_attn, f"{name}_norm").weight)

    def project(self, x: Tensor, layer: Any, name: str) -> Tensor:
        heads = self.heads if name == "q" else self.kv_heads
        made = self.split(F.linear(x, self.weight(layer, name)), heads, name)
        return self.rotate(self.headed(made, layer, name), name)


def sinusoid(length: int, width: int, base: float = 10000.0) -> Tensor:
    angles = torch.arange(length)[:, None] * base ** (-torch.arange(0, width, 2) / width)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


class Encoder(HandWritten):
    """torch's own encoder layer on embeddings and a sinusoidal table of positions."""

    table: Tensor
    layer: Any

    def __init__(self, *, norm_first: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(30, 24)
        self.register_buffer("table", sinusoid(16, 24))
        self.layer = nn.TransformerEncoderLayer(
            24, 3, 40, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        shaken(self)
        self.inputs = {"ids": torch.randint(30, (2, 7))}

    def placed(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]

    def embed(self, ids: Tensor) -> Tensor:
        return self.placed(self.embedding(ids) * math.sqrt(24))

    def block(self, x: Tensor) -> Tensor:
        return self.layer(x)

    def forward(self, ids: Tensor) -> Tensor:
        return self.block(self.embed(ids))


class HandEncoder(Encoder):
    """The same layer, written by hand.

    order: which thirds of the projection are q, k, v; biased: whether it has its bias; turn: done
    to the keys.
    """

    order: tuple[int, int, int] = (0, 1, 2)
    biased: bool = True
    turn: Any = None

    def normed(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        mean, spread = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return (x - mean) / torch.sqrt(spread + 1e-5) * norm.weight + norm.bias

    def fed(self, x: Tensor) -> Tensor:
        return self.layer.linear2(F.relu(self.layer.linear1(x)))

    def attended(self, x: Tensor) -> Tensor:
        attention = self.layer.self_attn
        bias = attention.in_proj_bias if self.biased else None
        made = F.linear(x, attention.in_proj_weight, bias)
        thirds = made.view(*x.shape[:2], 3, 3, 8).permute(2, 0, 3, 1, 4)
        q, k, v = (thirds[third] for third in self.order)
        k = k if self.turn is None else self.turn(k)
        weights = (q @ k.mT / math.sqrt(8)).softmax(-1)
        return attention.out_proj((weights @ v).transpose(1, 2).reshape(x.shape))

    def added(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch

    def block(self, x: Tensor) -> Tensor:
        x = self.normed(self.added(x, self.attended(x)), self.layer.norm1)
        return self.normed(self.added(x, self.fed(x)), self.layer.norm2)


class Cross(HandWritten):
    """Queries from one sequence, keys and values from another of the same length.

    layers: whose weights q, k and v are made with; again: whose bias is added once more.
    """

    layers: str = "qkv"
    again: str = ""
    o: nn.Linear

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        for name in "qkvo":
            setattr(self, name, nn.Linear(24, 24))
        self.inputs = {"x": torch.randn(2, 6, 24), "memory": torch.randn(2, 6, 24)}

    def sources(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, memory, memory

    def projected(self, name: str, x: Tensor) -> Tensor:
        layer = getattr(self, name)
        return layer(x) + layer.bias if name == self.again else layer(x)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], 3, 8).transpose(1, 2)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        made = zip(self.layers, self.sources(x, memory), strict=True)
        q, k, v = (self.split(self.projected(name, source)) for name, source in made)
        context = F.scaled_dot_product_attention(q, k, v)
        return self.o(context.transpose(1, 2).flatten(2))
