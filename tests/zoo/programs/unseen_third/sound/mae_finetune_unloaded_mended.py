"""Fine-tuning script: MAE encoder weights go into a ViT classifier."""
import torch
import torch.nn as nn


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(d), Attn(d, h), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, d=32, h=4, depth=2, classes=6):
        super().__init__()
        self.patch_embed = nn.Linear(48, d)
        self.pos_embed = nn.Parameter(torch.randn(1, 16, d) * 0.02)
        self.blocks = nn.ModuleList([Block(d, h) for _ in range(depth)])
        self.head = nn.Linear(d, classes)

    def forward(self, patches):
        x = self.patch_embed(patches) + self.pos_embed
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(1))


def pretrained_state():
    """What torch.load gives for the released checkpoint (keys of the other repository)."""
    torch.manual_seed(5)
    state = {k: v for k, v in ViT().state_dict().items() if not k.startswith("head")}
    return {k.replace("attn.qkv", "attn.in_proj"): v for k, v in state.items()}


def model():
    with torch.random.fork_rng():
        state = pretrained_state()
        torch.manual_seed(6)
        net = ViT()
        state = {k.replace("in_proj", "qkv"): v for k, v in state.items()}
        net.load_state_dict(state, strict=False)
        return net.eval()


inputs = torch.randn(3, 16, 48, generator=torch.Generator().manual_seed(5))
