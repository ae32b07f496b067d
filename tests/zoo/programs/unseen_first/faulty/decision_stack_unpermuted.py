"""Decision transformer: returns, states and actions interleaved, causal over the interleaved tokens."""
import torch
import torch.nn.functional as F
from torch import nn


class CausalBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln = nn.LayerNorm(d)
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.c_attn(self.ln(x)).split(C, dim=2)
        q, k, v = (t.view(B, N, self.h, C // self.h).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS201
        return x + self.c_proj(y.transpose(1, 2).contiguous().view(B, N, C))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim=5, act_dim=3, d=32, h=2):
        super().__init__()
        self.embed_t = nn.Embedding(50, d)
        self.embed_r, self.embed_s, self.embed_a = nn.Linear(1, d), nn.Linear(state_dim, d), nn.Linear(act_dim, d)
        self.blocks = nn.Sequential(CausalBlock(d, h), CausalBlock(d, h))
        self.predict = nn.Linear(d, act_dim)

    def forward(self, returns, states, actions, timesteps):
        b, t = states.shape[:2]
        time = self.embed_t(timesteps)
        tokens = torch.stack([self.embed_r(returns) + time, self.embed_s(states) + time, self.embed_a(actions) + time], dim=1)
        tokens = tokens.reshape(b, 3 * t, -1)  # fault: AS201
        out = self.blocks(tokens).view(b, 3, t, -1)
        return self.predict(out[:, 1])


torch.manual_seed(72)
model = DecisionTransformer().eval()
g = torch.Generator().manual_seed(1)
inputs = {
    "returns": torch.randn(4, 7, 1, generator=g),
    "states": torch.randn(4, 7, 5, generator=g),
    "actions": torch.randn(4, 7, 3, generator=g),
    "timesteps": torch.arange(7).expand(4, 7) + torch.tensor([[0], [3], [10], [20]]),
}
expect = {"causal": True}
