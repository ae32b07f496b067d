"""From-scratch attention with raw nn.Parameter projections (blog post code)."""
# also: AS302 AS902
import torch
from torch import nn
import torch.nn.functional as F


class RawAttention(nn.Module):
    def __init__(self, n_embd=96, n_head=8):
        super().__init__()
        self.n_head = n_head
        self.Wq = nn.Parameter(torch.randn(n_embd, n_embd))  # fault: AS901|AS302
        self.Wk = nn.Parameter(torch.randn(n_embd, n_embd))  # fault: AS901|AS302
        self.Wv = nn.Parameter(torch.randn(n_embd, n_embd) / n_embd ** 0.5)
        self.Wo = nn.Parameter(torch.randn(n_embd, n_embd) / n_embd ** 0.5)

    def forward(self, x):
        B, T, C = x.shape
        hs = C // self.n_head
        q = (x @ self.Wq).view(B, T, self.n_head, hs).transpose(1, 2)
        k = (x @ self.Wk).view(B, T, self.n_head, hs).transpose(1, 2)
        v = (x @ self.Wv).view(B, T, self.n_head, hs).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) / hs ** 0.5
        att = att.masked_fill(torch.tril(torch.ones(T, T, device=x.device)) == 0, float("-inf"))
        att = F.softmax(att, dim=-1)  # fault: AS901|AS302
        return (att @ v).transpose(1, 2).reshape(B, T, C) @ self.Wo


def model():
    with torch.random.fork_rng():
        torch.manual_seed(901)
        return RawAttention().eval()


inputs = (torch.randn(2, 17, 96, generator=torch.Generator().manual_seed(901)),)
