"""Evaluation copy of a trajectory model: short histories are left-padded, positions are 0..K-1 in each row."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Policy(nn.Module):
    def __init__(self, state_dim=6, act_dim=2, d=32, heads=4, K=12):
        super().__init__()
        self.heads = heads
        self.s, self.pos = nn.Linear(state_dim, d), nn.Embedding(K + 1, d)
        self.qkv, self.o, self.ln = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d)
        self.act = nn.Linear(d, act_dim)

    def forward(self, states, attention_mask):
        b, t, _ = states.shape
        position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        x = self.s(states) + self.pos(position_ids)
        q, k, v = self.qkv(self.ln(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        allow = torch.ones(t, t, dtype=torch.bool).tril() & attention_mask[:, None, None].bool()
        allow = allow | torch.eye(t, dtype=torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allow)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        return self.act(x)


with torch.random.fork_rng():
    torch.manual_seed(76)
    model = Policy().eval()
_m = (torch.arange(10)[None] >= torch.tensor([0, 4, 7])[:, None]).long()
inputs = {"states": torch.randn(3, 10, 6, generator=torch.Generator().manual_seed(76)) * _m[..., None], "attention_mask": _m}
expect = {"causal": True, "padding": "attention_mask keep"}
