"""Language model trained on packed samples with positions per sample, https://github.com/huggingface/nanoVLM/pull/204."""

import torch
import torch.nn.functional as F
from torch import nn


def apply_rotary(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    freqs = positions[:, None, :, None].float() * base ** (-torch.arange(half).float() / half)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * freqs.cos() - b * freqs.sin(), b * freqs.cos() + a * freqs.sin()), dim=-1)


class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.head_dim = dim // n_heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, position_ids, document_ids):
        q, k, v = (
            proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = apply_rotary(q, position_ids), apply_rotary(k, position_ids)
        same = document_ids[:, None, :, None] == document_ids[:, None, None, :]
        mask = same & torch.ones(same.shape[-2:], dtype=torch.bool).tril()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class LanguageModel(nn.Module):
    def __init__(self, vocab=88, dim=48, n_heads=4, n_kv_heads=2, blocks=2):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab, dim)
        self.norms = nn.ModuleList([nn.RMSNorm(dim) for _ in range(blocks)])
        self.blocks = nn.ModuleList([GroupedQueryAttention(dim, n_heads, n_kv_heads) for _ in range(blocks)])
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, input_ids, document_ids):
        index = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        starts = F.pad(document_ids[:, 1:] != document_ids[:, :-1], (1, 0), value=True)
        position_ids = index - (index * starts).cummax(dim=1).values
        x = self.token_embedding(input_ids)
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x), position_ids, document_ids)
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(204)
    model = LanguageModel().eval()
    inputs = {
        "input_ids": torch.randint(0, 88, (2, 13)),
        "document_ids": torch.tensor([[0] * 4 + [1] * 6 + [2] * 3, [0] * 8 + [1] * 5]),
    }
expect = {"causal": True, "documents": "document_ids"}
