"""Image classifier built on the transformer block of a GPT repository."""
import torch
import torch.nn as nn
from torch.nn import functional as F
from dataclasses import dataclass


@dataclass
class ViTConfig:
    image_size: int = 24
    patch: int = 6
    n_embd: int = 36
    n_head: int = 4
    n_layer: int = 2
    n_class: int = 9
    dropout: float = 0.0


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head = config.n_head
        self.dropout = config.dropout

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, -1).transpose(1, 2)
        k = k.view(B, T, self.n_head, -1).transpose(1, 2)
        v = v.view(B, T, self.n_head, -1).transpose(1, 2)
        drop = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=True)  # fault: AS212
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = SelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.Sequential(nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(),
                                 nn.Linear(4 * config.n_embd, config.n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class ImageTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        n = (config.image_size // config.patch) ** 2
        self.patch = nn.Linear(3 * config.patch ** 2, config.n_embd)
        self.wpe = nn.Embedding(n, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, config.n_class)

    def forward(self, img):
        patches = F.unfold(img, self.config.patch, stride=self.config.patch).transpose(1, 2)
        x = self.patch(patches) + self.wpe.weight
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x).mean(dim=1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(1337)
        return ImageTransformer(ViTConfig()).eval()


inputs = {"img": torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(1337))}
expect = {"causal": False}
