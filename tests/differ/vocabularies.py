"""One small decoder, written in the vocabularies and packings that people use, and its maps."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, DIM, INNER, VOCABULARY, POSITIONS = 16, 4, 4, 24, 23, 12


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return the merged context of projections (batch, length, heads * head_dim)."""
    batch, length, _ = q.shape

    def split(x: Tensor) -> Tensor:
        return x.view(batch, length, -1, DIM).transpose(1, 2)

    context = F.scaled_dot_product_attention(
        split(q), split(k), split(v), is_causal=True, enable_gqa=True
    )
    return context.transpose(1, 2).reshape(batch, length, -1)


# Hugging Face's Llama


class LlamaAttention(nn.Module):
    def __init__(self, kv_heads: int = HEADS) -> None:
        super().__init__()
        self.q_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj = nn.Linear(WIDTH, kv_heads * DIM, bias=False)
        self.v_proj = nn.Linear(WIDTH, kv_heads * DIM, bias=False)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Any:
        return self.o_proj(attend(self.q_proj(x), self.k_proj(x), self.v_proj(x)))


class LlamaMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, INNER, bias=False)
        self.up_proj = nn.Linear(WIDTH, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Any:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, kv_heads: int = HEADS) -> None:
        super().__init__()
        self.self_attn = LlamaAttention(kv_heads)
        self.mlp = LlamaMLP()
        self.input_layernorm = nn.RMSNorm(WIDTH)
        self.post_attention_layernorm = nn.RMSNorm(WIDTH)

    def forward(self, x: Tensor) -> Any:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaBody(nn.Module):
    def __init__(self, kv_heads: int = HEADS) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([LlamaLayer(kv_heads) for _ in range(2)])
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, ids: Tensor) -> Any:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Llama(nn.Module):
    def __init__(self, kv_heads: int = HEADS) -> None:
        super().__init__()
        self.config = {"num_attention_heads": HEADS, "num_key_value_heads": kv_heads}
        self.model = LlamaBody(kv_heads)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Any:
        return self.lm_head(self.model(ids))


# Meta's Llama: wq, wk, wv, wo, w1 (gate), w2 (down), w3 (up)


class MetaBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {name: nn.Linear(WIDTH, WIDTH, bias=False) for name in ("wq", "wk", "wv", "wo")}
        )
        self.feed_forward = nn.ModuleDict(
            {
                "w1": nn.Linear(WIDTH, INNER, bias=False),
                "w2": nn.Linear(INNER, WIDTH, bias=False),
                "w3": nn.Linear(WIDTH, INNER, bias=False),
            }
        )
        self.attention_norm = nn.RMSNorm(WIDTH)
        self.ffn_norm = nn.RMSNorm(WIDTH)

    def forward(self, x: Tensor) -> Any:
        a, f = self.attention, self.feed_forward
        h = self.attention_norm(x)
        x = x + a["wo"](attend(a["wq"](h), a["wk"](h), a["wv"](h)))
        h = self.ffn_norm(x)
        return x + f["w2"](F.silu(f["w1"](h)) * f["w3"](h))


class Meta(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([MetaBlock() for _ in range(2)])
        self.norm = nn.RMSNorm(WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Any:
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


# one fused projection for q, k and v, one for gate and up, raw parameters (inputs, outputs)


class FusedBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(WIDTH)
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.to_out = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Dropout(0.0))
        self.norm2 = nn.RMSNorm(WIDTH)
        self.W_gate_up = nn.Parameter(torch.randn(WIDTH, 2 * INNER) / 4)
        self.W_down = nn.Parameter(torch.randn(INNER, WIDTH) / 5)

    def forward(self, x: Tensor) -> Any:
        x = x + self.to_out(attend(*self.to_qkv(self.norm1(x)).chunk(3, dim=-1)))
        gate, up = (self.norm2(x) @ self.W_gate_up).chunk(2, dim=-1)
        return x + (F.silu(gate) * up) @ self.W_down


class Fused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(FusedBlock(), FusedBlock())
        self.ln_f = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Any:
        return self.head(self.ln_f(self.blocks(self.token_embedding(ids))))


# one matrix per head, as in tutorials and in TransformerLens


class PerHead(nn.Module):
    """Raw (heads, inputs, head_dim) parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([PerHeadBlock() for _ in range(2)])
        self.ln_final = nn.RMSNorm(WIDTH)
        self.W_U = nn.Parameter(torch.randn(WIDTH, VOCABULARY) / 4)

    def forward(self, ids: Tensor) -> Any:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.ln_final(x) @ self.W_U


class PerHeadBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1 = nn.RMSNorm(WIDTH)
        self.attn = PerHeadAttention()
        self.ln2 = nn.RMSNorm(WIDTH)
        self.mlp = nn.ModuleDict(
            {
                "gate": nn.Linear(WIDTH, INNER, bias=False),
                "in": nn.Linear(WIDTH, INNER, bias=False),
                "out": nn.Linear(INNER, WIDTH, bias=False),
            }
        )

    def forward(self, x: Tensor) -> Any:
        x = x + self.attn(self.ln1(x))
        h = self.ln2(x)
        return x + self.mlp["out"](F.silu(self.mlp["gate"](h)) * self.mlp["in"](h))


class PerHeadAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n_heads = HEADS
        self.W_Q, self.W_K, self.W_V = (
            nn.Parameter(torch.randn(HEADS, WIDTH, DIM) / 4) for _ in range(3)
        )
        self.W_O = nn.Parameter(torch.randn(HEADS, DIM, WIDTH) / 4)

    def forward(self, x: Tensor) -> Any:
        q, k, v = (
            torch.einsum("btw,hwd->bthd", x, weight).flatten(2)
            for weight in (self.W_Q, self.W_K, self.W_V)
        )
        context = attend(q, k, v).unflatten(-1, (HEADS, DIM))
        return torch.einsum("bthd,hdw->btw", context, self.W_O)


class HeadList(nn.Module):
    """A list of heads, each with its own small projections and its own output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([HeadListLayer() for _ in range(2)])
        self.final_norm = nn.RMSNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Any:
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.final_norm(x))


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, DIM, bias=False) for _ in range(3))
        self.out = nn.Linear(DIM, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Any:
        return self.out(attend(self.query(x), self.key(x), self.value(x)))


class HeadListLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"heads": nn.ModuleList([Head() for _ in range(HEADS)])})
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)])
        self.ff = LlamaMLP()

    def forward(self, x: Tensor) -> Any:
        h = self.norms[0](x)
        heads: nn.Module = self.attention["heads"]
        x = x + sum(head(h) for head in heads.children())
        return x + self.ff(self.norms[1](x))


# attention and feed-forward as lists of two, unnamed


class Unnamed(nn.Module):
    """Layers as lists of [norm, attention, norm, feed-forward] with linears.0 to 3."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([UnnamedLayer() for _ in range(2)])
        self.norm = nn.RMSNorm(WIDTH)
        self.generator = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Any:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.generator(self.norm(x))


class LinearsAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)])

    def forward(self, x: Tensor) -> Any:
        q, k, v, out = self.linears
        return out(attend(q(x), k(x), v(x)))


class UnnamedLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = LinearsAttention()
        self.feed_forward = LlamaMLP()
        self.sublayer = nn.ModuleList([nn.ModuleDict({"norm": nn.RMSNorm(WIDTH)}) for _ in "ab"])

    def forward(self, x: Tensor) -> Any:
        first, second = (part.get_submodule("norm") for part in self.sublayer)
        x = x + self.self_attn(first(x))
        return x + self.feed_forward(second(x))


DECODERS: tuple[type[nn.Module], ...] = (Llama, Meta, Fused, PerHead, HeadList, Unnamed)


def randomised(model: nn.Module, seed: int) -> nn.Module:
    """Give every parameter random values, also norms' gains and biases, as training does."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.1 if parameter.ndim == 1 else parameter.shape[-1] ** -0.5
            noise = torch.randn(parameter.shape, generator=generator) * spread
            parameter.copy_(noise + (1.0 if parameter.ndim == 1 else 0.0))
    return model.eval()
