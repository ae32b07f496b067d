"""Decision transformer: returns, states and actions interleaved into one causal sequence."""
import math

import torch
import torch.nn as nn


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.key = nn.Linear(n_embd, n_embd)
        self.query = nn.Linear(n_embd, n_embd)
        self.value = nn.Linear(n_embd, n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        m = torch.tril(torch.ones(block_size, block_size))
        self.register_buffer("mask", m.view(1, 1, block_size, block_size))
        self.n_head = n_head

    def forward(self, x):
        B, T, C = x.size()
        k = self.key(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = att.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim=11, act_dim=3, hidden=32, K=20):
        super().__init__()
        self.embed_timestep = nn.Embedding(100, hidden)
        self.embed_return = nn.Linear(1, hidden)
        self.embed_state = nn.Linear(state_dim, hidden)
        self.embed_action = nn.Linear(act_dim, hidden)
        self.ln = nn.LayerNorm(hidden)
        self.attn1 = CausalSelfAttention(hidden, 4, 3 * K)
        self.attn2 = CausalSelfAttention(hidden, 4, 3 * K)
        self.n1, self.n2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.predict_action = nn.Sequential(nn.Linear(hidden, act_dim), nn.Tanh())

    def forward(self, states, actions, returns_to_go, timesteps):
        B, T = states.shape[:2]
        te = self.embed_timestep(timesteps)
        s, a, r = self.embed_state(states) + te, self.embed_action(actions) + te, self.embed_return(returns_to_go) + te
        x = torch.stack((r, s, a), dim=1).permute(0, 2, 1, 3).reshape(B, 3 * T, -1)
        x = self.ln(x)
        x = x + self.attn1(self.n1(x))
        x = x + self.attn2(self.n2(x))
        x = x.reshape(B, T, 3, -1).permute(0, 2, 1, 3)
        return self.predict_action(x[:, 1])


def model():
    with torch.random.fork_rng():
        torch.manual_seed(123)
        return DecisionTransformer().eval()


def inputs():
    g = torch.Generator().manual_seed(5)
    return dict(
        states=torch.randn(2, 7, 11, generator=g),
        actions=torch.randn(2, 7, 3, generator=g),
        returns_to_go=torch.rand(2, 7, 1, generator=g),
        timesteps=torch.arange(7).repeat(2, 1) + torch.tensor([[0], [13]]),
    )


expect = {"causal": True}
