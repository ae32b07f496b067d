"""BLOOM-like decoder with ALiBi for six heads and right-padded batches."""

import math

import torch
from torch import nn


def get_slopes(n):
    def power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return power_of_2(closest) + get_slopes(2 * closest)[0::2][: n - closest]


class BloomAttention(nn.Module):
    def __init__(self, hidden_size, n_head):
        super().__init__()
        self.num_heads = n_head
        self.head_dim = hidden_size // n_head
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, x, alibi, mask):
        b, t, _ = x.shape
        fused = self.query_key_value(x).view(b, t, self.num_heads, 3, self.head_dim)
        q = fused[..., 0, :].transpose(1, 2).reshape(b * self.num_heads, t, self.head_dim)
        k = fused[..., 1, :].permute(0, 2, 3, 1).reshape(b * self.num_heads, self.head_dim, t)
        v = fused[..., 2, :].transpose(1, 2).reshape(b * self.num_heads, t, self.head_dim)
        scores = torch.baddbmm(alibi, q, k, beta=1.0, alpha=self.inv_norm_factor)
        scores = scores.view(b, self.num_heads, t, t)
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
        probs = torch.softmax(scores, dim=-1).view(b * self.num_heads, t, t)
        ctx = torch.bmm(probs, v).view(b, self.num_heads, t, self.head_dim)
        return self.dense(ctx.permute(0, 2, 1, 3).reshape(b, t, -1))


class BloomModel(nn.Module):
    def __init__(self, vocab=64, hidden=48, n_head=6, n_layer=2):
        super().__init__()
        self.n_head = n_head
        self.word_embeddings = nn.Embedding(vocab, hidden)
        self.word_embeddings_layernorm = nn.LayerNorm(hidden)
        self.ln = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(n_layer))
        self.h = nn.ModuleList(BloomAttention(hidden, n_head) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(hidden)
        self.register_buffer("slopes", torch.tensor(get_slopes(n_head)))

    def build_alibi(self, attention_mask):
        b, t = attention_mask.shape
        position = (attention_mask.cumsum(-1) - 1) * attention_mask
        alibi = self.slopes[None, :, None] * position[:, None, :]
        return alibi.reshape(b * self.n_head, 1, t)

    def forward(self, input_ids, attention_mask):
        t = input_ids.shape[1]
        alibi = self.build_alibi(attention_mask)
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        mask = future[None, None] | (attention_mask[:, None, None, :] == 0)
        x = self.word_embeddings_layernorm(self.word_embeddings(input_ids))
        for ln, attn in zip(self.ln, self.h):
            x = x + attn(ln(x), alibi, mask)
        return self.ln_f(x) @ self.word_embeddings.weight.T


with torch.random.fork_rng():
    torch.manual_seed(0)
    model = BloomModel().eval()

inputs = {
    "input_ids": torch.randint(0, 64, (3, 10), generator=torch.Generator().manual_seed(1)),
    "attention_mask": (torch.arange(10) < torch.tensor([10, 8, 5])[:, None]).long(),
}
expect = {"causal": True, "padding": "attention_mask keep"}
