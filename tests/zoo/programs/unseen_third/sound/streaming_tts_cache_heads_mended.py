"""Token-to-audio decoder with rotary attention and a per-layer cache object."""
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class DecoderOut:
    logits: torch.Tensor
    past_key_values: Optional[List[Tuple[torch.Tensor, torch.Tensor]]] = None


def rope(x, pos, base=10000.0):
    d = x.shape[-1]
    f = base ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    a = pos[:, None].float() * f
    c, s = a.cos().repeat(1, 2), a.sin().repeat(1, 2)
    x1, x2 = x[..., : d // 2], x[..., d // 2 :]
    return x * c + torch.cat((-x2, x1), -1) * s


class RoAttn(nn.Module):
    def __init__(self, d, nh):
        super().__init__()
        self.nh = nh
        self.wqkv, self.wo = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, kv):
        B, T, D = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.nh, -1).permute(2, 0, 3, 1, 4)
        if kv is not None:
            off = kv[0].shape[2]
            q = rope(q, torch.arange(off, off + T))
            k = torch.cat([kv[0], rope(k, torch.arange(off, off + T))], 2)
            v = torch.cat([kv[1], v], 2)
        else:
            q, k = rope(q, torch.arange(T)), rope(k, torch.arange(T))
        S = k.shape[2]
        s = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        s = s + torch.full((T, S), float("-inf")).triu(S - T + 1)
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D)), (k, v)


class AudioDecoder(nn.Module):
    def __init__(self, codes=64, d=32, nh=2, layers=2):
        super().__init__()
        self.emb = nn.Embedding(codes, d)
        self.blocks = nn.ModuleList([RoAttn(d, nh) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.RMSNorm(d) for _ in range(layers)])
        self.head = nn.Linear(d, codes)

    def forward(self, input_ids, past_key_values=None):
        x, cache = self.emb(input_ids), []
        for i, (b, n) in enumerate(zip(self.blocks, self.norms)):
            y, kv = b(n(x), past_key_values[i] if past_key_values is not None else None)
            x, _ = x + y, cache.append(kv)
        return DecoderOut(self.head(x), cache)


with torch.random.fork_rng():
    torch.manual_seed(92)
    model = AudioDecoder().eval()
inputs = {"input_ids": torch.randint(0, 64, (2, 11), generator=torch.Generator().manual_seed(92))}
expect = {"cache": "past_key_values", "causal": True}
