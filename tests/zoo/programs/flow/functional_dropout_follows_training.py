"""Cross-attention from text to image regions."""

import torch
from torch import nn
import torch.nn.functional as F


class TextToImage(nn.Module):
    def __init__(self, text_dim=32, image_dim=20, heads=4, p=0.2):
        super().__init__()
        self.heads, self.p = heads, p
        self.q = nn.Linear(text_dim, text_dim)
        self.k = nn.Linear(image_dim, text_dim)
        self.v = nn.Linear(image_dim, text_dim)
        self.o = nn.Linear(text_dim, text_dim)

    def forward(self, text, regions):
        b, n, w = text.shape
        m = regions.shape[1]
        q = self.q(text).view(b, n, self.heads, -1).transpose(1, 2)
        k = self.k(regions).view(b, m, self.heads, -1).permute(0, 2, 3, 1)
        v = self.v(regions).view(b, m, self.heads, -1).transpose(1, 2)
        probs = F.softmax(torch.matmul(q, k) / (w // self.heads) ** 0.5, dim=-1)
        probs = F.dropout(probs, p=self.p, training=self.training)
        return text + self.o(torch.matmul(probs, v).transpose(1, 2).reshape(b, n, w))


with torch.random.fork_rng():
    torch.manual_seed(81)
    model = TextToImage().eval()

inputs = {
    "text": torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(81)),
    "regions": torch.randn(2, 12, 20, generator=torch.Generator().manual_seed(82)),
}
# note: AS501
