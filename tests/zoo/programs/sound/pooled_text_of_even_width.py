"""Text encoder of a contrastive model: the end token is read, into as many features as tokens."""
import torch
import torch.nn.functional as F
from torch import nn


class TextTower(nn.Module):
    def __init__(self, vocab=60, width=32, heads=4, length=12, out=12):
        super().__init__()
        self.heads = heads
        self.token_embedding = nn.Embedding(vocab, width)
        self.positional_embedding = nn.Parameter(torch.randn(length, width) * 0.1)
        self.ln = nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.text_projection = nn.Parameter(torch.randn(width, out) * width**-0.5)

    def forward(self, text):
        x = self.token_embedding(text) + self.positional_embedding[: text.shape[1]]
        b, n, d = x.shape
        q, k, v = self.qkv(self.ln(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, d))
        pooled = x[torch.arange(b), text.argmax(dim=-1)]
        return pooled @ self.text_projection


def model():
    torch.manual_seed(12)
    return TextTower().eval()


inputs = torch.randint(0, 60, (2, 12), generator=torch.Generator().manual_seed(13))
