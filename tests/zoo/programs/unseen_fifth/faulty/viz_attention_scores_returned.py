"""Attention layer with output_attentions for the heat-map notebook."""
import torch
from torch import nn
import torch.nn.functional as F


class VizAttention(nn.Module):
    def __init__(self, hidden=48, heads=6):
        super().__init__()
        self.heads, self.d = heads, hidden // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(hidden, hidden) for _ in range(4))

    def forward(self, x, output_attentions=True):
        b, n, c = x.shape
        q = self.wq(x).view(b, n, self.heads, self.d).transpose(1, 2)
        k = self.wk(x).view(b, n, self.heads, self.d).transpose(1, 2)
        v = self.wv(x).view(b, n, self.heads, self.d).transpose(1, 2)
        attn_weights = q @ k.transpose(2, 3) / self.d ** 0.5
        out = F.softmax(attn_weights, dim=-1) @ v
        out = self.wo(out.transpose(1, 2).reshape(b, n, c))
        return (out, attn_weights) if output_attentions else (out,)  # fault: AS803


torch.manual_seed(803)
model = VizAttention().eval()
inputs = torch.randn(2, 11, 48, generator=torch.Generator().manual_seed(803))
