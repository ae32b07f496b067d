"""Decoder over image and text tokens: image patches see each other, text is causal."""
import torch
from torch import nn


class MixedAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, keep):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, self.h, 3, -1).permute(3, 0, 2, 1, 4)
        s = (q @ k.mT) * q.shape[-1] ** -0.5
        s = torch.where(keep, s, torch.finfo(s.dtype).min)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class Captioner(nn.Module):
    def __init__(self, d=40, h=4, vocab=65):
        super().__init__()
        self.patch = nn.Linear(12, d)
        self.words, self.pos = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.layers = nn.ModuleList(MixedAttention(d, h) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.head = nn.Linear(d, vocab)

    def forward(self, patches, caption):
        p, n = patches.shape[1], patches.shape[1] + caption.shape[1]
        x = torch.cat([self.patch(patches), self.words(caption)], dim=1) + self.pos.weight[:n]
        is_image = torch.arange(n) < p
        keep = torch.ones(n, n, dtype=torch.bool).tril() | (is_image[:, None] & is_image[None, :])
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x), keep)
        return self.head(x[:, p:])


with torch.random.fork_rng():
    torch.manual_seed(35)
    model = Captioner().eval()
    inputs = {"patches": torch.rand(3, 6, 12), "caption": torch.randint(65, (3, 9))}
