"""Diffusion over text: a drawn canvas reads itself and the last tokens that a prompt's cache keeps."""
import torch
import torch.nn.functional as F
from torch import nn

WINDOW, CANVAS, VOCAB = 3, 10, 50


class Heads(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.o = nn.Linear(width, width)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, kept=None, causal=False):
        q, k, v = (self.split(f(x)) for f in (self.q, self.k, self.v))
        if kept is not None:
            k, v = torch.cat([kept[0], k], dim=2), torch.cat([kept[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return x + self.o(y.transpose(1, 2).flatten(2)), (k[:, :, -WINDOW:], v[:, :, -WINDOW:])


class CanvasModel(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.pos = nn.Embedding(64, width)
        self.encoder, self.decoder = Heads(width), Heads(width)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, input_ids):
        n = input_ids.shape[1]
        read, kept = self.encoder(self.embed(input_ids) + self.pos(torch.arange(n)), causal=True)
        canvas = torch.randint(VOCAB, (len(input_ids), CANVAS))
        x = self.embed(canvas) + self.pos(torch.arange(n, n + CANVAS))
        return self.head(torch.cat([read, self.decoder(x, kept)[0]], dim=1))


def model():
    torch.manual_seed(8)
    return CanvasModel().eval()


inputs = torch.randint(0, VOCAB, (2, 11), generator=torch.Generator().manual_seed(9))
