"""Reviews rated by an encoder; a helper says which words are real."""

import torch
from torch import nn
from torch.nn import functional as F

PAD = 0


def is_real(ids):
    """True for each word, False for padding."""
    return ids.eq(PAD)  # fault: AS205


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, real):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None, :])
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class Rating(nn.Module):
    def __init__(self, words=60, width=32):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(30, width)
        self.layers = nn.ModuleList(Layer(width, 4) for _ in range(2))
        self.score = nn.Linear(width, 5)

    def forward(self, ids):
        real = is_real(ids)
        x = self.word(ids) + self.place.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, real)
        return self.score(x[:, 0])


torch.manual_seed(74)
model = Rating().eval()
inputs = torch.randint(1, 60, (3, 9))
inputs[0, 6:] = PAD
inputs[2, 4:] = PAD
expect = {"padding": "ids pad=0"}
# also: AS202 AS212
