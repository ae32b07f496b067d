# Cross-attention of an image on a text, behind a convolution that starts at zero.
import torch
from torch import nn


class TextToImage(nn.Module):
    def __init__(self, channels=16, text=12, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(4, channels)
        self.to_q = nn.Conv2d(channels, channels, 1)
        self.to_kv = nn.Linear(text, 2 * channels)
        self.proj = nn.Conv2d(channels, channels, 1)
        nn.init.zeros_(self.proj.weight)
        nn.init.zeros_(self.proj.bias)

    def forward(self, img, text, text_mask):
        b, c, h, w = img.shape
        q = self.to_q(self.norm(img)).view(b, self.heads, -1, h * w).transpose(-1, -2)
        k, v = self.to_kv(text).view(b, -1, 2, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5
        scores = scores.masked_fill(~text_mask[:, None, None], float("-inf"))
        out = (scores.softmax(-1) @ v).transpose(-1, -2).reshape(b, c, h, w)
        return img + self.proj(out)


torch.manual_seed(0)
model = TextToImage().eval()
inputs = {
    "img": torch.randn(2, 16, 3, 5),
    "text": torch.randn(2, 7, 12),
    "text_mask": torch.arange(7)[None] < torch.tensor([7, 4])[:, None],
}
