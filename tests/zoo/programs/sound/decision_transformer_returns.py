"""Decision Transformer: returns, states and actions interleaved, a 2-D padding mask over a causal stack."""

import torch
import torch.nn as nn


class MaskedCausalAttention(nn.Module):
    def __init__(self, h_dim, max_T, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_net, self.k_net, self.v_net = nn.Linear(h_dim, h_dim), nn.Linear(h_dim, h_dim), nn.Linear(h_dim, h_dim)
        self.proj_net = nn.Linear(h_dim, h_dim)
        self.register_buffer("mask", torch.tril(torch.ones(max_T, max_T)).view(1, 1, max_T, max_T))

    def forward(self, x, attention_mask):
        B, T, C = x.shape
        N, D = self.n_heads, C // self.n_heads
        q = self.q_net(x).view(B, T, N, D).transpose(1, 2)
        k = self.k_net(x).view(B, T, N, D).transpose(1, 2)
        v = self.v_net(x).view(B, T, N, D).transpose(1, 2)
        weights = q @ k.transpose(2, 3) / D**0.5
        weights = weights.masked_fill(self.mask[..., :T, :T] == 0, -1e4)
        weights = weights + (1.0 - attention_mask[:, None, None, :]) * -1e4
        attention = (weights.softmax(dim=-1) @ v).transpose(1, 2).contiguous().view(B, T, N * D)
        return self.proj_net(attention)


class Block(nn.Module):
    def __init__(self, h_dim, max_T, n_heads):
        super().__init__()
        self.attention = MaskedCausalAttention(h_dim, max_T, n_heads)
        self.mlp = nn.Sequential(nn.Linear(h_dim, 2 * h_dim), nn.GELU(), nn.Linear(2 * h_dim, h_dim))
        self.ln1, self.ln2 = nn.LayerNorm(h_dim), nn.LayerNorm(h_dim)

    def forward(self, x, attention_mask):
        x = self.ln1(x + self.attention(x, attention_mask))
        return self.ln2(x + self.mlp(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim=11, act_dim=3, h_dim=30, context_len=8, n_heads=3, n_blocks=2, max_timestep=50):
        super().__init__()
        self.blocks = nn.ModuleList(Block(h_dim, 3 * context_len, n_heads) for _ in range(n_blocks))
        self.embed_ln = nn.LayerNorm(h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        self.embed_rtg = nn.Linear(1, h_dim)
        self.embed_state, self.embed_action = nn.Linear(state_dim, h_dim), nn.Linear(act_dim, h_dim)
        self.predict_action = nn.Sequential(nn.Linear(h_dim, act_dim), nn.Tanh())

    def forward(self, states, actions, returns_to_go, timesteps, attention_mask):
        B, T, _ = states.shape
        time = self.embed_timestep(timesteps)
        tokens = (self.embed_rtg(returns_to_go) + time, self.embed_state(states) + time, self.embed_action(actions) + time)
        h = torch.stack(tokens, dim=2).reshape(B, 3 * T, -1)
        h = self.embed_ln(h)
        mask = attention_mask.repeat_interleave(3, dim=1)
        for block in self.blocks:
            h = block(h, mask)
        h = h.reshape(B, T, 3, -1)
        return self.predict_action(h[:, :, 1])


with torch.random.fork_rng():
    torch.manual_seed(117)
    model = DecisionTransformer().eval()


def inputs():
    g = torch.Generator().manual_seed(118)
    keep = (torch.arange(7)[None] >= torch.tensor([[0], [3]])).float()
    return {
        "states": torch.randn(2, 7, 11, generator=g),
        "actions": torch.randn(2, 7, 3, generator=g),
        "returns_to_go": torch.randn(2, 7, 1, generator=g),
        "timesteps": (torch.arange(7)[None] - torch.tensor([[0], [3]]) + 5).clamp(min=0) * keep.long(),
        "attention_mask": keep,
    }


# every action is predicted from the return and state of its own step and all before
expect = {"padding": "attention_mask keep"}
