"""Flamingo cross-attention: text attends to the last image before it; text before any image gets a zero row."""
import torch
import torch.nn as nn


class MaskedCrossAttention(nn.Module):
    def __init__(self, dim=32, dim_visual=24, heads=4, dim_head=8):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale, self.norm = heads, dim_head**-0.5, nn.LayerNorm(dim)
        self.to_q, self.to_kv, self.to_out = nn.Linear(dim, inner, bias=False), nn.Linear(dim_visual, inner * 2, bias=False), nn.Linear(inner, dim, bias=False)
        self.attn_gate = nn.Parameter(torch.tensor([0.3]))

    def forward(self, x, media, media_locations):
        b, t, n = media.shape[:3]
        h = self.heads
        q = self.to_q(self.norm(x)).view(b, -1, h, q_dim := self.to_q.out_features // h).transpose(1, 2) * self.scale
        k, v = self.to_kv(media.flatten(1, 2)).chunk(2, -1)
        k, v = (a.view(b, -1, h, q_dim).transpose(1, 2) for a in (k, v))
        sim = q @ k.transpose(-1, -2)
        text_time = media_locations.cumsum(dim=-1)
        media_time = torch.arange(1, t + 1).repeat_interleave(n)
        sim = sim.masked_fill(~(text_time[:, None, :, None] == media_time), -torch.finfo(sim.dtype).max)
        attn = (sim - sim.amax(-1, keepdim=True).detach()).softmax(-1)
        attn = attn.masked_fill((text_time == 0)[:, None, :, None], 0.0)
        out = (attn @ v).transpose(1, 2).flatten(2)
        return x + self.attn_gate.tanh() * self.to_out(out)


with torch.random.fork_rng():
    torch.manual_seed(42)
    model = MaskedCrossAttention().eval()
_g = torch.Generator().manual_seed(42)
_loc = torch.zeros(2, 12, dtype=torch.bool)
_loc[0, [2, 7]] = True
_loc[1, [0, 5]] = True
inputs = (torch.randn(2, 12, 32, generator=_g), torch.randn(2, 2, 3, 24, generator=_g), _loc)
