"""Return-conditioned policy on (return, state, action) triples, left-padded short episodes."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalBlock(nn.Module):
    def __init__(self, width, n_head):
        super().__init__()
        self.n_head = n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, key_mask):
        B, L, W = x.shape
        q, k, v = self.qkv(self.ln_1(x)).chunk(3, dim=-1)
        q, k, v = (t.view(B, L, self.n_head, -1).transpose(1, 2) for t in (q, k, v))
        att = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        visible = torch.ones(L, L, dtype=torch.bool, device=x.device).tril()
        att = att.masked_fill(~visible, torch.finfo(att.dtype).min)  # fault: AS208|AS202
        y = F.softmax(att, dim=-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(B, L, W))
        return x + self.mlp(self.ln_2(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim=11, act_dim=3, hidden=36, max_ep_len=100):
        super().__init__()
        self.embed_timestep = nn.Embedding(max_ep_len, hidden)
        self.embed_return = nn.Linear(1, hidden)
        self.embed_state = nn.Linear(state_dim, hidden)
        self.embed_action = nn.Linear(act_dim, hidden)
        self.embed_ln = nn.LayerNorm(hidden)
        self.blocks = nn.ModuleList(CausalBlock(hidden, 3) for _ in range(2))
        self.predict_action = nn.Sequential(nn.Linear(hidden, act_dim), nn.Tanh())

    def forward(self, states, actions, returns, timesteps, attention_mask):
        B, T = states.shape[:2]
        time = self.embed_timestep(timesteps)
        r, s, a = self.embed_return(returns) + time, self.embed_state(states) + time, self.embed_action(actions) + time
        stacked = torch.stack((r, s, a), dim=2).reshape(B, 3 * T, -1)
        x = self.embed_ln(stacked)
        stacked_mask = torch.stack((attention_mask,) * 3, dim=2).reshape(B, 3 * T).bool()
        for block in self.blocks:
            x = block(x, stacked_mask)
        return self.predict_action(x.view(B, T, 3, -1)[:, :, 1])


torch.manual_seed(8)
model = DecisionTransformer().eval()
K = 9
mask = torch.ones(4, K, dtype=torch.long)
mask[1, :4] = 0
mask[3, :6] = 0
inputs = dict(
    states=torch.randn(4, K, 11),
    actions=torch.randn(4, K, 3),
    returns=torch.rand(4, K, 1),
    timesteps=(torch.arange(K)[None] - (1 - mask).sum(1, keepdim=True)).clamp(min=0),
    attention_mask=mask,
)
expect = {"padding": "attention_mask keep"}
# also: AS202 AS208
