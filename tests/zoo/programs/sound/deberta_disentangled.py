"""DeBERTa-like layer: content-to-position and position-to-content scores, divided by sqrt(3d)."""

import math

import torch
from torch import nn


class DisentangledSelfAttention(nn.Module):
    def __init__(self, hidden_size=40, heads=4, span=6):
        super().__init__()
        self.heads, self.span = heads, span
        self.query_proj, self.key_proj, self.value_proj = (nn.Linear(hidden_size, hidden_size) for _ in range(3))
        self.rel_embeddings = nn.Embedding(2 * span, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size)

    def transpose_for_scores(self, x):
        return x.view(*x.shape[:-1], self.heads, -1).transpose(-2, -3)

    def forward(self, hidden_states, attention_mask):
        b, n, d = hidden_states.shape
        q = self.transpose_for_scores(self.query_proj(hidden_states))
        k = self.transpose_for_scores(self.key_proj(hidden_states))
        v = self.transpose_for_scores(self.value_proj(hidden_states))
        scale = 1 / math.sqrt(q.size(-1) * 3)
        rel = self.rel_embeddings.weight
        pos_k = self.transpose_for_scores(self.key_proj(rel))
        pos_q = self.transpose_for_scores(self.query_proj(rel))
        idx = torch.arange(n, device=hidden_states.device)
        delta = (idx[:, None] - idx[None, :] + self.span).clamp(0, 2 * self.span - 1)
        c2c = q @ k.transpose(-1, -2)
        c2p = torch.gather(q @ pos_k.transpose(-1, -2), -1, delta.expand(b, self.heads, n, n))
        p2c = torch.gather(k @ pos_q.transpose(-1, -2), -1, delta.expand(b, self.heads, n, n)).transpose(-1, -2)
        scores = (c2c + c2p + p2c) * scale
        pair = (attention_mask[:, None, None, :] * attention_mask[:, None, :, None]).bool()
        probs = scores.masked_fill(~pair, torch.finfo(scores.dtype).min).softmax(-1)
        probs = probs.masked_fill(~pair, 0)
        context = (probs @ v).transpose(1, 2).reshape(b, n, d)
        return self.LayerNorm(hidden_states + self.dense(context))


class DebertaTiny(nn.Module):
    def __init__(self, vocab=75, hidden=40):
        super().__init__()
        self.embeddings = nn.Embedding(vocab, hidden, padding_idx=0)
        self.norm = nn.LayerNorm(hidden)
        self.layer = nn.ModuleList([DisentangledSelfAttention(hidden) for _ in range(2)])

    def forward(self, input_ids, attention_mask):
        x = self.norm(self.embeddings(input_ids)) * attention_mask.unsqueeze(-1)
        for layer in self.layer:
            x = layer(x, attention_mask)
        return x


with torch.random.fork_rng():
    torch.manual_seed(48)
    model = DebertaTiny().eval()

_keep = (torch.arange(13) < torch.tensor([[13], [9]])).long()
inputs = {
    "input_ids": torch.randint(1, 75, (2, 13), generator=torch.Generator().manual_seed(49)) * _keep,
    "attention_mask": _keep,
}
expect = {"padding": "attention_mask keep"}
