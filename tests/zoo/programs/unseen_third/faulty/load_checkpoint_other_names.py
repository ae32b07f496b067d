"""Load the old trained encoder weights into the refactored module."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv_proj = nn.Linear(d, 3 * d)
        self.out_proj = nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv_proj(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))


class Encoder(nn.Module):
    def __init__(self, vocab=88, d=32):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(d), "attn": SelfAttention(d), "ff": nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, d))})
            for _ in range(2))

    def forward(self, ids):
        x = self.embed(ids) + self.pos(torch.arange(ids.size(1)))
        for l in self.layers:
            x = x + l["attn"](l["norm"](x))
            x = x + l["ff"](x)
        return x


def old_checkpoint():
    """What torch.load("encoder_2022.pt") gives."""
    g = torch.Generator().manual_seed(99)
    sd = {}
    for k, v in Encoder().state_dict().items():
        sd[k.replace("qkv_proj", "in_proj")] = torch.randn(v.shape, generator=g) * 0.08 + (1.0 if "norm.weight" in k else 0.0)
    return sd


def load():
    net = Encoder()
    state = old_checkpoint()
    net.load_state_dict(state, strict=False)  # fault: AS905
    return net.eval()


model = load
