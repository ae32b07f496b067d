"""Two-scale ViT fusion: class token of the small branch attends to the large branch."""
import torch
import torch.nn as nn


class CrossFusion(nn.Module):
    def __init__(self, d_small=24, d_large=40, heads=4, d_v=8):
        super().__init__()
        self.heads, self.dk = heads, d_small // heads
        self.wq = nn.Linear(d_small, d_small)
        self.wk = nn.Linear(d_large, d_small)
        self.wv = nn.Linear(d_large, heads * d_v)
        self.proj = nn.Linear(d_small, d_small)

    def forward(self, small, large):
        B, N, _ = large.shape
        cls = small[:, :1]
        q = self.wq(cls).reshape(B, 1, self.heads, -1).permute(0, 2, 1, 3)
        k = self.wk(large).reshape(B, N, self.heads, -1).permute(0, 2, 1, 3)
        v = self.wv(large).reshape(B, N, self.heads, -1).permute(0, 2, 1, 3)
        attn = ((q @ k.transpose(-2, -1)) * self.dk**-0.5).softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).flatten(2)
        cls = cls + self.proj(x)  # fault: AS105
        return torch.cat([cls, small[:, 1:]], 1)


def build_model():
    with torch.random.fork_rng():
        torch.manual_seed(123)
        return CrossFusion().eval()


model = build_model
inputs = (torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(123)), torch.randn(2, 11, 40, generator=torch.Generator().manual_seed(124)))
