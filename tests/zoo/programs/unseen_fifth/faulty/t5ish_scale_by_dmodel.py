"""Encoder of a keyphrase generator. Embedding, two blocks, einsum heads without views."""
import torch
from torch import nn
from torch.nn import functional as F


class HeadwiseAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.scale = d_model ** -0.5  # fault: AS301
        self.Wq = nn.Parameter(torch.empty(n_heads, d_model, d_head))
        self.Wk = nn.Parameter(torch.empty(n_heads, d_model, d_head))
        self.Wv = nn.Parameter(torch.empty(n_heads, d_model, d_head))
        self.Wo = nn.Parameter(torch.empty(n_heads, d_head, d_model))
        for w in (self.Wq, self.Wk, self.Wv, self.Wo):
            nn.init.normal_(w, std=d_model ** -0.5)

    def forward(self, x):
        q = torch.einsum("btd,hde->bhte", x, self.Wq)
        k = torch.einsum("btd,hde->bhte", x, self.Wk)
        v = torch.einsum("btd,hde->bhte", x, self.Wv)
        scores = torch.einsum("bhie,bhje->bhij", q, k) * self.scale  # fault: AS301
        return torch.einsum("bhij,bhje,hed->bid", F.softmax(scores, -1), v, self.Wo)


class KeyphraseEncoder(nn.Module):
    def __init__(self, vocab=133, d_model=64, n_heads=8, n_layers=2):
        super().__init__()
        self.E = nn.Embedding(vocab, d_model)
        self.P = nn.Parameter(torch.randn(48, d_model) * 0.1)
        self.attn = nn.ModuleList(HeadwiseAttention(d_model, n_heads) for _ in range(n_layers))
        self.ln = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))

    def forward(self, ids):
        x = self.E(ids) + self.P[: ids.shape[1]]
        for a, n in zip(self.attn, self.ln):
            x = x + a(n(x))
        return x


torch.manual_seed(88)
model = KeyphraseEncoder().eval()
inputs = (torch.randint(0, 133, (2, 12), generator=torch.Generator().manual_seed(88)),)
expect = {"scale": 8 ** -0.5}
