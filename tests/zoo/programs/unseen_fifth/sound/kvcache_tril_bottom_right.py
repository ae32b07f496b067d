"""GPT-J style decoder with an explicit list of past key/values."""
import torch
from torch import nn


class CachedAttention(nn.Module):
    def __init__(self, hidden, heads, max_positions=128):
        super().__init__()
        self.heads, self.hd = heads, hidden // heads
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, hidden, bias=False)
        self.v_proj = nn.Linear(hidden, hidden, bias=False)
        self.out_proj = nn.Linear(hidden, hidden, bias=False)
        self.register_buffer("bias", torch.tril(torch.ones(max_positions, max_positions, dtype=torch.bool))[None, None],
                             persistent=False)

    def forward(self, x, layer_past=None):
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, self.heads, self.hd).permute(0, 2, 1, 3)
        k = self.k_proj(x).view(b, t, self.heads, self.hd).permute(0, 2, 1, 3)
        v = self.v_proj(x).view(b, t, self.heads, self.hd).permute(0, 2, 1, 3)
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=-2)
            v = torch.cat((layer_past[1], v), dim=-2)
        present = (k, v)
        query_length, key_length = q.size(-2), k.size(-2)
        causal_mask = self.bias[:, :, key_length - query_length: key_length, :key_length]
        w = q @ k.transpose(-1, -2) / self.hd ** 0.5
        w = torch.where(causal_mask, w, torch.finfo(w.dtype).min)
        y = torch.softmax(w, -1) @ v
        return self.out_proj(y.permute(0, 2, 1, 3).reshape(b, t, -1)), present


class CachedLM(nn.Module):
    def __init__(self, vocab=88, hidden=40, heads=4, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(128, hidden)
        self.ln = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.h = nn.ModuleList(CachedAttention(hidden, heads) for _ in range(layers))
        self.lm_head = nn.Linear(hidden, vocab)

    def forward(self, input_ids, past_key_values=None):
        past = past_key_values or [None] * len(self.h)
        off = 0 if past[0] is None else past[0][0].size(-2)
        x = self.wte(input_ids) + self.wpe(torch.arange(off, off + input_ids.size(1), device=input_ids.device))
        presents = []
        for ln, blk, p in zip(self.ln, self.h, past):
            a, pr = blk(ln(x), p)
            x = x + a
            presents.append(pr)
        return self.lm_head(x), presents


torch.manual_seed(18)
model = CachedLM().eval()
_ids = torch.randint(0, 88, (2, 15), generator=torch.Generator().manual_seed(18))
with torch.no_grad():
    _, _past = model(_ids[:, :9])
inputs = {"input_ids": _ids[:, 9:], "past_key_values": _past}
