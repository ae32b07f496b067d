"""Decision transformer on hopper-like trajectories (return, state, action triples)."""
import torch
import torch.nn as nn


class CausalAttention(nn.Module):
    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.n_heads = n_heads
        self.q_net = nn.Linear(h_dim, h_dim)
        self.k_net = nn.Linear(h_dim, h_dim)
        self.v_net = nn.Linear(h_dim, h_dim)
        self.proj_net = nn.Linear(h_dim, h_dim)
        self.att_drop = nn.Dropout(drop_p)
        self.proj_drop = nn.Dropout(drop_p)
        mask = torch.tril(torch.ones((max_T, max_T))).view(1, 1, max_T, max_T)
        self.register_buffer('mask', mask)

    def forward(self, x):
        B, T, C = x.shape
        N, D = self.n_heads, C // self.n_heads
        q = self.q_net(x).view(B, T, N, D).transpose(1, 2)
        k = self.k_net(x).view(B, T, N, D).transpose(1, 2)
        v = self.v_net(x).view(B, T, N, D).transpose(1, 2)
        weights = q @ k.transpose(2, 3) / D ** 0.5
        weights = weights.masked_fill(self.mask[..., :T, :T] == 0, float('-inf'))
        normalized = torch.softmax(weights, dim=-1)
        attention = self.att_drop(normalized @ v)
        attention = attention.transpose(1, 2).contiguous().view(B, T, N * D)
        return self.proj_drop(self.proj_net(attention))


class Block(nn.Module):
    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.attention = CausalAttention(h_dim, max_T, n_heads, drop_p)
        self.mlp = nn.Sequential(nn.Linear(h_dim, 4 * h_dim), nn.GELU(), nn.Linear(4 * h_dim, h_dim), nn.Dropout(drop_p))
        self.ln1 = nn.LayerNorm(h_dim)
        self.ln2 = nn.LayerNorm(h_dim)

    def forward(self, x):
        x = self.ln1(x + self.attention(x))
        return self.ln2(x + self.mlp(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim=7, act_dim=3, n_blocks=2, h_dim=32, context_len=10, n_heads=2, drop_p=0.1, max_timestep=100):
        super().__init__()
        self.h_dim = h_dim
        self.transformer = nn.Sequential(*[Block(h_dim, 3 * context_len, n_heads, drop_p) for _ in range(n_blocks)])
        self.embed_ln = nn.LayerNorm(h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        self.embed_rtg = nn.Linear(1, h_dim)
        self.embed_state = nn.Linear(state_dim, h_dim)
        self.embed_action = nn.Linear(act_dim, h_dim)
        self.predict_action = nn.Sequential(nn.Linear(h_dim, act_dim), nn.Tanh())

    def forward(self, timesteps, states, actions, returns_to_go):
        B, T, _ = states.shape
        t = self.embed_timestep(timesteps)
        s = self.embed_state(states) + t
        a = self.embed_action(actions) + t
        r = self.embed_rtg(returns_to_go) + t
        h = torch.stack((r, s, a), dim=1).permute(0, 2, 1, 3).reshape(B, 3 * T, self.h_dim)
        h = self.transformer(self.embed_ln(h))
        h = h.reshape(B, T, 3, self.h_dim).permute(0, 2, 1, 3)
        return self.predict_action(h[:, 1])


def model():
    with torch.random.fork_rng():
        torch.manual_seed(100)
        return DecisionTransformer().eval()


def inputs():
    g = torch.Generator().manual_seed(101)
    return {"timesteps": torch.arange(6).repeat(2, 1) + torch.tensor([[0], [20]]),
            "states": torch.randn(2, 6, 7, generator=g), "actions": torch.rand(2, 6, 3, generator=g),
            "returns_to_go": torch.rand(2, 6, 1, generator=g)}
