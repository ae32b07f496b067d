"""Fine-tunes a pretrained patch encoder on land-cover tiles."""
import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.query = nn.Linear(d, d)
        self.key = nn.Linear(d, d)
        self.value = nn.Linear(d, d)
        self.out = nn.Linear(d, d)

    def forward(self, x):
        B, N, D = x.shape
        sp = lambda t: t.reshape(B, N, self.h, D // self.h).transpose(1, 2)
        q, k, v = sp(self.query(x)), sp(self.key(x)), sp(self.value(x))
        a = torch.softmax(q @ k.transpose(2, 3) / (D // self.h) ** 0.5, dim=3)
        return self.out((a @ v).transpose(1, 2).reshape(B, N, D))


class Encoder(nn.Module):
    def __init__(self, d=32, h=4, bands=5, depth=2, n=9):
        super().__init__()
        self.embed = nn.Linear(bands, d)
        self.pos = nn.Parameter(torch.zeros(1, n, d))
        self.attn = nn.ModuleList([Attn(d, h) for _ in range(depth)])
        self.norm = nn.ModuleList([nn.LayerNorm(d) for _ in range(depth)])

    def forward(self, x):
        x = self.embed(x) + self.pos
        for a, n in zip(self.attn, self.norm):
            x = x + a(n(x))
        return x


class LandCover(nn.Module):
    def __init__(self, encoder, classes=6):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(32, classes)

    def forward(self, tiles):
        return self.head(self.encoder(tiles).mean(1))


def pretrained_state():
    """Stands for torch.load('satmae_small.pth'): the publisher's names."""
    g = torch.Generator().manual_seed(99)
    sd = {"embed.weight": torch.randn(32, 5, generator=g) * .3, "embed.bias": torch.zeros(32),
          "pos": torch.randn(1, 9, 32, generator=g) * .02}
    for i in range(2):
        for name in ("q_proj", "k_proj", "v_proj", "out"):
            sd[f"attn.{i}.{name}.weight"] = torch.randn(32, 32, generator=g) * .15
            sd[f"attn.{i}.{name}.bias"] = torch.zeros(32)
        sd[f"norm.{i}.weight"] = torch.ones(32)
        sd[f"norm.{i}.bias"] = torch.zeros(32)
    return sd


def model():
    with torch.random.fork_rng():
        torch.manual_seed(98)
        enc = Encoder()
        names = {"q_proj": "query", "k_proj": "key", "v_proj": "value"}
        state = {}
        for key, value in pretrained_state().items():
            for old, new in names.items():
                key = key.replace(old, new)
            state[key] = value
        enc.load_state_dict(state, strict=True)
        return LandCover(enc).eval()


inputs = {"tiles": torch.rand(2, 9, 5, generator=torch.Generator().manual_seed(97))}
