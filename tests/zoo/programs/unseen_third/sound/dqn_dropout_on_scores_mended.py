"""Deep transformer Q-network: history of observations, Q-values at each step (training mode)."""
import torch
import torch.nn as nn


class TransformerLayer(nn.Module):
    def __init__(self, num_heads, embed_size, history_len, dropout):
        super().__init__()
        self.nh = num_heads
        self.layernorm1, self.layernorm2 = nn.LayerNorm(embed_size), nn.LayerNorm(embed_size)
        self.in_proj, self.out_proj = nn.Linear(embed_size, 3 * embed_size), nn.Linear(embed_size, embed_size)
        self.drop = nn.Dropout(dropout)
        self.ffn = nn.Sequential(nn.Linear(embed_size, 4 * embed_size), nn.ReLU(), nn.Linear(4 * embed_size, embed_size), nn.Dropout(dropout))
        self.attn_mask = nn.Parameter(torch.triu(torch.ones(history_len, history_len), diagonal=1) == 1, requires_grad=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.in_proj(self.layernorm1(x)).view(B, T, 3, self.nh, -1).permute(2, 0, 3, 1, 4)
        e = q @ k.transpose(-1, -2) * (C // self.nh) ** -0.5
        e = e.masked_fill(self.attn_mask[:T, :T], float("-inf"))
        p = self.drop(e.softmax(-1))
        x = x + self.out_proj((p @ v).transpose(1, 2).reshape(B, T, C))
        return x + self.ffn(self.layernorm2(x))


class DTQN(nn.Module):
    def __init__(self, obs=10, e=32, h=4, layers=2, hist=16, actions=4):
        super().__init__()
        self.obs_embedding = nn.Linear(obs, e)
        self.position_embedding = nn.Parameter(torch.randn(1, hist, e) * 0.1)
        self.transformer_layers = nn.Sequential(*[TransformerLayer(h, e, hist, 0.2) for _ in range(layers)])
        self.ffn = nn.Linear(e, actions)

    def forward(self, obss):
        x = self.obs_embedding(obss) + self.position_embedding[:, : obss.size(1)]
        return self.ffn(self.transformer_layers(x))


with torch.random.fork_rng():
    torch.manual_seed(96)
    model = DTQN().train()
inputs = torch.randn(3, 12, 10, generator=torch.Generator().manual_seed(96))
