"""Prompt classifier whose attention logits are standardised for stable training."""
import torch
from torch import nn


class StandardisedAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.Q, self.K, self.V = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.O = nn.Linear(dim, dim)

    def forward(self, x):
        bs, n, d = x.shape
        heads = lambda y: y.reshape(bs, n, self.n_heads, d // self.n_heads).permute(0, 2, 1, 3)
        q, k, v = heads(self.Q(x)), heads(self.K(x)), heads(self.V(x))
        logits = torch.einsum("bhid,bhjd->bhij", q, k)
        logits = (logits - logits.mean()) / (logits.std() + 1e-6)  # fault: AS305|AS102
        w = torch.softmax(logits, dim=-1)
        y = torch.einsum("bhij,bhjd->bhid", w, v)
        return self.O(y.permute(0, 2, 1, 3).reshape(bs, n, d))


class PromptGuard(nn.Module):
    """ids -> probability that the prompt is an injection"""

    def __init__(self, n_vocab=280, dim=42, n_heads=6, n_layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(n_vocab, dim), nn.Embedding(90, dim)
        self.layers = nn.ModuleList()
        for _ in range(n_layers):
            self.layers.append(nn.ModuleDict({"ln": nn.LayerNorm(dim), "attn": StandardisedAttention(dim, n_heads)}))
        self.cls = nn.Linear(dim, 1)

    def forward(self, ids):
        h = self.tok(ids) + self.pos(torch.arange(ids.size(1)).to(ids.device))
        for layer in self.layers:
            h = h + layer["attn"](layer["ln"](h))
        return torch.sigmoid(self.cls(h.mean(1))).squeeze(-1)


torch.manual_seed(55)
model = PromptGuard().eval()
inputs = (torch.randint(0, 280, (4, 18), generator=torch.Generator().manual_seed(55)),)
