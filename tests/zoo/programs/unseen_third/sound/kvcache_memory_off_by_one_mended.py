"""World-model agent with its own ring of past keys (kept in the module, emptied by reset)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MemoryAttention(nn.Module):
    def __init__(self, d=32, h=4, size=64):
        super().__init__()
        self.h, self.size, self.length = h, size, 0
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.k_cache = self.v_cache = None

    def reset(self):
        self.k_cache = self.v_cache = None
        self.length = 0

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        if self.k_cache is None:
            self.k_cache, self.v_cache = k.new_zeros(b, self.h, self.size, d // self.h), v.new_zeros(b, self.h, self.size, d // self.h)
        old = self.length
        self.k_cache = torch.cat([self.k_cache[:, :, :old], k, self.k_cache[:, :, old + t :]], 2)
        self.v_cache = torch.cat([self.v_cache[:, :, :old], v, self.v_cache[:, :, old + t :]], 2)
        self.length = old + t
        n = self.length
        k, v = self.k_cache[:, :, :n], self.v_cache[:, :, :n]
        allow = torch.arange(n)[None] <= torch.arange(old, old + t)[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allow)
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class Agent(nn.Module):
    def __init__(self, obs=6, d=32):
        super().__init__()
        self.inp, self.pos, self.ln, self.mem, self.out = nn.Linear(obs, d), nn.Embedding(64, d), nn.LayerNorm(d), MemoryAttention(d), nn.Linear(d, 3)

    def reset(self):
        self.mem.reset()

    def forward(self, obs):
        x = self.inp(obs) + self.pos(torch.arange(self.mem.length, self.mem.length + obs.size(1)))
        return self.out(x + self.mem(self.ln(x)))


with torch.random.fork_rng():
    torch.manual_seed(129)
    model = Agent().eval()
inputs = torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(129))
expect = {"cache": "self", "causal": True}
