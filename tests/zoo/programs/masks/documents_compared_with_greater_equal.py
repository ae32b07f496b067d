"""Packed fine-tuning batches: block-diagonal causal mask from segment ids, additive."""

import torch
from torch import nn


def block_causal_bias(segment_ids, dtype):
    n = segment_ids.shape[-1]
    same = segment_ids[:, :, None] >= segment_ids[:, None, :]  # fault: AS209
    causal = torch.arange(n)[:, None] >= torch.arange(n)[None, :]
    return torch.where(same & causal, 0.0, torch.finfo(dtype).min)[:, None]


class PackedAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.hidden = heads, hidden
        self.q_proj = nn.Linear(hidden, hidden)
        self.k_proj = nn.Linear(hidden, hidden)
        self.v_proj = nn.Linear(hidden, hidden)
        self.o_proj = nn.Linear(hidden, hidden)

    def forward(self, hidden_states, bias):
        b, s, _ = hidden_states.shape
        q = self.q_proj(hidden_states).reshape(b, s, self.heads, -1).swapaxes(1, 2)
        k = self.k_proj(hidden_states).reshape(b, s, self.heads, -1).swapaxes(1, 2)
        v = self.v_proj(hidden_states).reshape(b, s, self.heads, -1).swapaxes(1, 2)
        weights = torch.baddbmm(
            bias.expand(-1, self.heads, -1, -1).reshape(b * self.heads, s, s),
            q.reshape(b * self.heads, s, -1),
            k.reshape(b * self.heads, s, -1).mT,
            alpha=(self.hidden // self.heads) ** -0.5,
        ).softmax(-1)
        out = torch.bmm(weights, v.reshape(b * self.heads, s, -1))
        return self.o_proj(out.view(b, self.heads, s, -1).swapaxes(1, 2).reshape(b, s, -1))


class SftModel(nn.Module):
    def __init__(self, vocab=62, hidden=35, heads=5, layers=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, hidden)
        self.wpe = nn.Embedding(32, hidden)
        self.attn = nn.ModuleList(PackedAttention(hidden, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.lm_head = nn.Linear(hidden, vocab)

    def forward(self, input_ids, position_ids, segment_ids):
        h = self.wte(input_ids) + self.wpe(position_ids)
        bias = block_causal_bias(segment_ids, h.dtype)
        for attn, norm in zip(self.attn, self.norm):
            h = h + attn(norm(h), bias)
        return self.lm_head(h)


with torch.random.fork_rng():
    torch.manual_seed(49)
    model = SftModel().eval()

inputs = {
    "input_ids": torch.randint(0, 62, (3, 12), generator=torch.Generator().manual_seed(49)),
    "position_ids": torch.tensor(
        [[*range(5), *range(7)], [*range(8), *range(4)], [*range(3), *range(4), *range(5)]]
    ),
    "segment_ids": torch.tensor([[1] * 5 + [2] * 7, [1] * 8 + [2] * 4, [1] * 3 + [2] * 4 + [3] * 5]),
}
expect = {"causal": True, "documents": "segment_ids", "positions": "position_ids"}
