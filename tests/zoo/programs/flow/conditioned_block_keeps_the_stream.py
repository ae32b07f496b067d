"""Voice converter: the speaker scales and shifts what each layer's norm returns."""

import torch
from torch import nn
from torch.nn import functional as F


class ConditionalNorm(nn.Module):
    def __init__(self, width, speaker):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.scale, self.shift = nn.Linear(speaker, width), nn.Linear(speaker, width)

    def forward(self, x, s):
        return torch.addcmul(self.shift(s)[:, None], self.norm(x), 1 + self.scale(s)[:, None])


class Layer(nn.Module):
    def __init__(self, width=32, speaker=6, heads=4):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = (ConditionalNorm(width, speaker) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 48), nn.Linear(48, width)

    def attend(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x, s):
        h = self.before_attention(x, s)
        x = x + self.attend(h)
        h = self.before_mlp(x, s)
        return x + self.narrow(F.silu(self.wide(h)))


class Converter(nn.Module):
    def __init__(self, bins=20, width=32, speakers=7):
        super().__init__()
        self.speakers = nn.Embedding(speakers, 6)
        self.into, self.places = (
            nn.Linear(bins, width),
            nn.Parameter(torch.randn(1, 40, width) * 0.2),
        )
        self.layers = nn.ModuleList(Layer(width) for _ in range(3))
        self.back = nn.Linear(width, bins)

    def forward(self, mel, speaker):
        s = self.speakers(speaker)
        x = self.into(mel) + self.places[:, : mel.shape[1]]
        for layer in self.layers:
            x = layer(x, s)
        return self.back(x)


torch.manual_seed(21)
model = Converter().eval()
inputs = (
    torch.randn(3, 15, 20, generator=torch.Generator().manual_seed(21)),
    torch.tensor([0, 5, 2]),
)
