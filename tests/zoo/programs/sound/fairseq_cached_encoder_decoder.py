"""Encoder-decoder in (time, batch, channel) layout whose decoder takes and returns its cache."""

import torch
import torch.nn.functional as F
from torch import nn


class FairAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj, self.k_proj = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)
        self.v_proj, self.out_proj = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)

    def project(self, x):
        def shape(t):
            return t.contiguous().view(t.size(0), t.size(1) * self.num_heads, self.head_dim).transpose(0, 1)

        return shape(self.k_proj(x)), shape(self.v_proj(x))

    def forward(self, query, k, v, attn_mask=None, key_padding_mask=None):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query) * self.scaling
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        w = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            w = w + attn_mask.unsqueeze(0)
        if key_padding_mask is not None:
            w = w.view(bsz, self.num_heads, tgt_len, -1)
            w = w.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
            w = w.view(bsz * self.num_heads, tgt_len, -1)
        attn = torch.bmm(F.softmax(w, dim=-1), v)
        return self.out_proj(attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim))


class DecoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.self_attn, self.encoder_attn = FairAttention(d, h), FairAttention(d, h)
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.fc1, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x, memory, memory_pad, past):
        y = self.ln1(x)
        k, v = self.self_attn.project(y)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=1), torch.cat([past[1], v], dim=1)
        new, total = x.size(0), k.size(1)
        future = torch.triu(x.new_full((new, total), float("-inf")), diagonal=1 + total - new)
        x = x + self.self_attn(y, k, v, attn_mask=future)
        mk, mv = self.encoder_attn.project(memory)
        x = x + self.encoder_attn(self.ln2(x), mk, mv, key_padding_mask=memory_pad)
        return x + self.fc2(F.relu(self.fc1(self.ln3(x)))), (k, v)


class CaptionDecoder(nn.Module):
    def __init__(self, vocab=57, d=32, h=4, layers=2):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.layers = nn.ModuleList(DecoderLayer(d, h) for _ in range(layers))
        self.out = nn.Linear(d, vocab)

    def forward(self, prev_tokens, memory, memory_pad, past=None):
        start = 0 if past is None else past[0][0].size(1)
        pos = torch.arange(start, start + prev_tokens.size(1), device=prev_tokens.device)
        x = (self.embed(prev_tokens) + self.pos(pos)).transpose(0, 1)
        present = []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, memory, memory_pad, None if past is None else past[i])
            present.append(kv)
        return self.out(x.transpose(0, 1)), present


with torch.random.fork_rng():
    torch.manual_seed(70)
    model = CaptionDecoder().eval()

_g = torch.Generator().manual_seed(71)
inputs = {
    "prev_tokens": torch.randint(0, 57, (3, 7), generator=_g),
    "memory": torch.randn(11, 3, 32, generator=_g),
    "memory_pad": torch.arange(11)[None] >= torch.tensor([[11], [9], [4]]),
}
expect = {"causal": True, "cache": "past"}
