"""LLaVA-like: projected image patches in front of the text; patches see each other, text is causal."""
import torch
import torch.nn as nn


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x, bias):
        B, T, D = x.shape
        y = self.n1(x)
        q = self.q(y).view(B, T, self.h, -1).transpose(1, 2)
        k, v = self.kv(y).view(B, T, 2, self.h, -1).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-1, -2) * q.size(-1) ** -0.5 + bias).softmax(-1)
        x = x + self.o((a @ v).transpose(1, 2).reshape(B, T, D))
        return x + self.down(nn.functional.silu(self.up(self.n2(x))))


class TinyLlava(nn.Module):
    def __init__(self, vocab=70, d=32, h=4, patch_dim=12, layers=2):
        super().__init__()
        self.mm_projector = nn.Sequential(nn.Linear(patch_dim, d), nn.GELU(), nn.Linear(d, d))
        self.embed = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(64, d)
        self.layers = nn.ModuleList([Layer(d, h) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)

    def build_bias(self, n_img, total):
        bias = torch.full((total, total), float("-inf")).triu(1)
        bias[n_img:, :n_img] = 0.0  # fault: AS212
        return bias

    def forward(self, pixel_patches, input_ids):
        x = torch.cat([self.mm_projector(pixel_patches), self.embed(input_ids)], dim=1)
        x = x + self.pos.weight[: x.size(1)]
        bias = self.build_bias(pixel_patches.size(1), x.size(1))
        for l in self.layers:
            x = l(x, bias)  # fault: AS212
        return self.norm(x)[:, pixel_patches.size(1) :] @ self.embed.weight.T


with torch.random.fork_rng():
    torch.manual_seed(70)
    model = TinyLlava().eval()
_g = torch.Generator().manual_seed(70)
inputs = {"pixel_patches": torch.randn(2, 6, 12, generator=_g), "input_ids": torch.randint(0, 70, (2, 9), generator=_g)}
expect = {"causal": True, "prefix": 6}
