"""Speaker embedding: frames summarised by four learned attention queries."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttentivePooling(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.hdim = dim // heads
        self.query = nn.Parameter(torch.randn(heads, self.hdim) * 0.5)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)

    def forward(self, h, keep):
        B, T, _ = h.shape
        k = self.key(h).view(B, T, self.heads, self.hdim)
        v = self.value(h).view(B, T, self.heads, self.hdim)
        e = torch.einsum("hd,bthd->bht", self.query, k) * self.hdim ** -0.5
        e = torch.where(keep[:, None, :], e, e.new_tensor(-1.0))  # fault: AS207|AS202
        alpha = F.softmax(e, dim=-1)  # fault: AS207|AS202
        return torch.einsum("bht,bthd->bhd", alpha, v).flatten(1)


class XVector(nn.Module):
    def __init__(self, mels=24, width=36, emb=19):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(mels, width), nn.ReLU(), nn.Linear(width, width), nn.LayerNorm(width))
        self.pool = MultiHeadAttentivePooling(width, 4)
        self.out = nn.Linear(width, emb)

    def forward(self, mel, n_frames):
        keep = torch.arange(mel.size(1), device=mel.device)[None] < n_frames[:, None]
        return F.normalize(self.out(self.pool(self.front(mel), keep)), dim=-1)


torch.manual_seed(2)
model = XVector().eval()
inputs = {"mel": torch.randn(5, 22, 24), "n_frames": torch.tensor([22, 10, 15, 7, 19])}
expect = {"padding": "n_frames lengths"}
# also: AS202
