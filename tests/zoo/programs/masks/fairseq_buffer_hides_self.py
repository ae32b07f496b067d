"""Time-first causal layer; the future mask is a boolean buffer."""

import torch
from torch import nn


class CausalLayer(nn.Module):
    def __init__(self, embed_dim, num_heads, max_len=40):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(embed_dim, num_heads)
        self.ln_attn, self.ln_ff = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.fc1, self.fc2 = nn.Linear(embed_dim, 2 * embed_dim), nn.Linear(2 * embed_dim, embed_dim)
        future = torch.triu(torch.ones(max_len, max_len, dtype=torch.bool))  # fault: AS212
        future[0, 0] = False
        self.register_buffer("future", future)

    def forward(self, x):
        n = x.size(0)
        h = self.ln_attn(x)
        h, _ = self.self_attn(h, h, h, attn_mask=self.future[:n, :n], need_weights=False)  # fault: AS212
        x = x + h
        return x + self.fc2(torch.relu(self.fc1(self.ln_ff(x))))


class StreamModel(nn.Module):
    def __init__(self, symbols=26, dim=28, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(symbols, dim)
        self.pos = nn.Parameter(0.2 * torch.randn(40, 1, dim))
        self.layers = nn.ModuleList(CausalLayer(dim, heads) for _ in range(layers))
        self.out = nn.Linear(dim, symbols)

    def forward(self, stream):
        x = self.embed(stream) + self.pos[: stream.size(0)]
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(62)
    model = StreamModel().eval()

inputs = torch.randint(0, 26, (11, 3), generator=torch.Generator().manual_seed(62))
expect = {"causal": True, "batch_axis": 1, "sequence_axis": 0}
