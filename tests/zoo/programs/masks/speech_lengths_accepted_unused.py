"""Keyword spotter: attention over frames of utterances of different length."""

import torch
from torch import nn


class FrameAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, frames, lengths):  # fault: AS208|AS202
        b, t, d = frames.shape
        q, k, v = self.qkv(frames).chunk(3, -1)
        q = q.view(b, t, self.heads, -1).transpose(1, 2)
        k = k.view(b, t, self.heads, -1).permute(0, 2, 3, 1)
        v = v.view(b, t, self.heads, -1).transpose(1, 2)
        alpha = torch.softmax(q @ k / (d // self.heads) ** 0.5, dim=-1)  # fault: AS208|AS202
        return self.out((alpha @ v).transpose(1, 2).reshape(b, t, d))


class KeywordSpotter(nn.Module):
    def __init__(self, mels=16, dim=28, heads=4, depth=2, keywords=8):
        super().__init__()
        self.front = nn.Linear(mels, dim)
        self.pos = nn.Parameter(torch.randn(40, dim) * 0.1)
        self.layers = nn.ModuleList(FrameAttention(dim, heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.frame_logits = nn.Linear(dim, keywords)

    def forward(self, frames, lengths):
        x = self.front(frames) + self.pos[: frames.size(1)]
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x), lengths)
        return self.frame_logits(x)


with torch.random.fork_rng():
    torch.manual_seed(44)
    model = KeywordSpotter().eval()

inputs = {
    "frames": torch.randn(3, 19, 16, generator=torch.Generator().manual_seed(44)),
    "lengths": torch.tensor([19, 12, 7]),
}
