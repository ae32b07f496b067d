"""Transformers are RNNs: elu(x)+1 features, running sums, and their normaliser; runs left to right."""

import torch
import torch.nn.functional as F
from torch import nn


class CausalLinearAttention(nn.Module):
    def __init__(self, d_model, n_heads, eps=1e-6):
        super().__init__()
        self.n_heads, self.eps = n_heads, eps
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.out_projection = nn.Linear(d_model, d_model)

    def forward(self, x):
        N, L, D = x.shape
        H = self.n_heads
        Q = F.elu(self.query_projection(x).view(N, L, H, -1)) + 1
        K = F.elu(self.key_projection(x).view(N, L, H, -1)) + 1
        V = self.value_projection(x).view(N, L, H, -1)
        KV = torch.einsum("nlhd,nlhm->nlhdm", K, V).cumsum(dim=1)
        Z = 1 / (torch.einsum("nlhd,nlhd->nlh", Q, K.cumsum(dim=1)) + self.eps)
        out = torch.einsum("nlhd,nlhdm,nlh->nlhm", Q, KV, Z)
        return self.out_projection(out.reshape(N, L, D))


class LinearTransformerLM(nn.Module):
    def __init__(self, vocab=48, d_model=32, n_heads=4, n_layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.pos = nn.Embedding(64, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.attns = nn.ModuleList(CausalLinearAttention(d_model, n_heads) for _ in range(n_layers))
        self.head = nn.Linear(d_model, vocab)

    def forward(self, x):
        h = self.embed(x) + self.pos.weight[: x.shape[1]]
        for norm, attn in zip(self.norms, self.attns):
            h = h + attn(norm(h))
        return self.head(h)


with torch.random.fork_rng():
    torch.manual_seed(52)
    model = LinearTransformerLM().eval()

inputs = torch.randint(0, 48, (3, 11), generator=torch.Generator().manual_seed(53))
expect = {"causal": True}
