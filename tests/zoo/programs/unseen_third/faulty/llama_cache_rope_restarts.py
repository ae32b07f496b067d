"""Llama-ish inference module with key/value cache, tuple outputs."""
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa


def rotate(x, pos, theta=10000.0):
    half = x.size(-1) // 2
    freq = theta ** -(torch.arange(half) / half)
    ang = pos[:, None].float() * freq
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()), dim=-1)


class CachedAttention(nn.Module):
    def __init__(self, width=32, nh=4, nkv=2):
        super().__init__()
        self.nh, self.nkv, self.hd = nh, nkv, width // nh
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * nkv * self.hd, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x, kv_cache=None):
        bs, n, _ = x.shape
        q = self.q(x).view(bs, n, self.nh, self.hd).transpose(1, 2)
        k, v = self.kv(x).view(bs, n, 2, self.nkv, self.hd).permute(2, 0, 3, 1, 4)
        past = 0 if kv_cache is None else kv_cache[0].size(-2)
        pos = torch.arange(n)  # fault: AS601|AS503
        q, k = rotate(q, pos), rotate(k, pos)  # fault: AS601|AS503
        if past:
            k, v = torch.cat([kv_cache[0], k], -2), torch.cat([kv_cache[1], v], -2)
        m = torch.arange(past + n) <= torch.arange(past, past + n)[:, None]
        out = sdpa(q, k, v, attn_mask=m, enable_gqa=True)
        return self.o(out.transpose(1, 2).flatten(-2)), (k, v)


class LM(nn.Module):
    def __init__(self, vocab_size=80, width=32, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.blocks = nn.ModuleList([CachedAttention(width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.RMSNorm(width) for _ in range(depth + 1)])
        self.unembed = nn.Linear(width, vocab_size, bias=False)

    def forward(self, ids, cache=None):
        x, new = self.embed(ids), []
        for i, blk in enumerate(self.blocks):
            y, kv = blk(self.norms[i](x), cache[i] if cache else None)
            x = x + y
            new.append(kv)
        return self.unembed(self.norms[-1](x)), new


torch.manual_seed(4)
model = LM().eval()
expect = {"cache": "cache", "causal": True}
