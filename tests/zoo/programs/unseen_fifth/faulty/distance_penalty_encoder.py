"""Punctuation restoration encoder with a distance penalty on attention (steeper per head)."""
# also: AS302
import torch
import torch.nn as nn
import torch.nn.functional as F


class LocalityAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(dim, 3 * dim)
        self.merge = nn.Linear(dim, dim)
        self.register_buffer("slopes", 12.0 * torch.arange(1, heads + 1))  # fault: AS405

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = self.lin(x).view(B, N, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        r = torch.arange(N, device=x.device)
        penalty = -(r[:, None] - r[None, :]).abs().float()
        bias = self.slopes[:, None, None] * penalty  # fault: AS405
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)  # fault: AS405
        return self.merge(y.transpose(1, 2).flatten(2))


class Punctuator(nn.Module):
    def __init__(self, vocab=120, dim=36, heads=3, n_out=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.attn = LocalityAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, n_out)

    def forward(self, ids):
        x = self.emb(ids)
        return self.out(self.norm(x + self.attn(x)))


torch.manual_seed(405)
model = Punctuator().eval()
inputs = (torch.randint(0, 120, (2, 14), generator=torch.Generator().manual_seed(405)),)
