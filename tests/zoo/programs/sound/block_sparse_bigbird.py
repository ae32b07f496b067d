"""BigBird-like encoder: neighbouring blocks, the first and last block for all, and fixed random blocks."""

import torch
import torch.nn.functional as F
from torch import nn


def bigbird_layout(n_blocks, n_random, seed):
    g = torch.Generator().manual_seed(seed)
    layout = torch.zeros(n_blocks, n_blocks, dtype=torch.bool)
    for i in range(n_blocks):
        layout[i, max(0, i - 1) : i + 2] = True
        layout[i, torch.randperm(n_blocks, generator=g)[:n_random]] = True
    layout[:, [0, -1]] = True
    layout[[0, -1], :] = True
    return layout


class BlockSparseSelfAttention(nn.Module):
    def __init__(self, hidden, heads, block, n_blocks, seed):
        super().__init__()
        self.heads = heads
        layout = bigbird_layout(n_blocks, 1, seed)
        dense = layout.repeat_interleave(block, 0).repeat_interleave(block, 1)
        self.register_buffer("layout", dense, persistent=False)
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, x):
        b, n, d = x.shape

        def split(t):
            return t.view(b, n, self.heads, d // self.heads).transpose(1, 2)

        ctx = F.scaled_dot_product_attention(
            split(self.query(x)), split(self.key(x)), split(self.value(x)), attn_mask=self.layout
        )
        return self.dense(ctx.transpose(1, 2).reshape(b, n, d))


class BigBirdEncoder(nn.Module):
    def __init__(self, vocab=65, hidden=36, heads=3, block=3, n_blocks=7):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.position = nn.Embedding(block * n_blocks, hidden)
        self.attn = nn.ModuleList(BlockSparseSelfAttention(hidden, heads, block, n_blocks, s) for s in (1, 2))
        self.norm = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2))

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.position.weight
        for attn, norm in zip(self.attn, self.norm):
            x = norm(x + attn(x))
        return x


with torch.random.fork_rng():
    torch.manual_seed(62)
    model = BigBirdEncoder().eval()

inputs = {"input_ids": torch.randint(0, 65, (2, 21), generator=torch.Generator().manual_seed(1))}
