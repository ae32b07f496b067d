"""Vision-language decoder: image patches and the prompt are a two-way prefix of the answer."""

import torch
import torch.nn.functional as F
from torch import nn


class MultiQueryAttention(nn.Module):
    def __init__(self, dim, heads, head_dim):
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        self.q_proj = nn.Linear(dim, heads * head_dim, bias=False)
        self.kv_proj = nn.Linear(dim, 2 * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, dim, bias=False)

    def forward(self, x, attn_bias):
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.heads, self.head_dim)
        k, v = self.kv_proj(x).chunk(2, dim=-1)
        scores = torch.einsum("bqhd,bkd->bhqk", q, k) / self.head_dim**0.5 + attn_bias
        attn = F.softmax(scores, dim=-1)
        return self.o_proj(torch.einsum("bhqk,bkd->bqhd", attn, v).reshape(b, n, -1))


class TinyPaliGemma(nn.Module):
    def __init__(self, vocab=55, dim=32, heads=4):
        super().__init__()
        self.patchify = nn.Conv2d(3, dim, 8, stride=8)
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(40, dim) * 0.02)
        self.norm1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.norm2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.attn = nn.ModuleList(MultiQueryAttention(dim, heads, 8) for _ in range(2))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim)) for _ in range(2))
        self.head = nn.Linear(dim, vocab)

    def forward(self, pixel_values, input_ids, prompt_length):
        image = self.patchify(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat([image, self.embed(input_ids)], dim=1)
        n = x.shape[1]
        x = x + self.pos[:n]
        prefix = image.shape[1] + prompt_length
        idx = torch.arange(n, device=x.device)
        visible = (idx[None, :] <= idx[:, None]) | (idx[None, :] < prefix)
        bias = torch.zeros(n, n, device=x.device).masked_fill(~visible, float("-inf"))
        for n1, n2, attn, mlp in zip(self.norm1, self.norm2, self.attn, self.mlp):
            x = x + attn(n1(x), bias)
            x = x + mlp(n2(x))
        return self.head(x[:, image.shape[1] :])


with torch.random.fork_rng():
    torch.manual_seed(12)
    model = TinyPaliGemma().eval()

_g = torch.Generator().manual_seed(13)
inputs = {
    "pixel_values": torch.randn(2, 3, 16, 24, generator=_g),
    "input_ids": torch.randint(0, 55, (2, 9), generator=_g),
    "prompt_length": 4,
}
