"""DiT block: adaLN-modulated attention and MLP with gates (random, as after some training)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.qkv, self.proj = num_heads, nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C))


class DiTBlock(nn.Module):
    def __init__(self, hidden_size=40, num_heads=5, mlp_ratio=2.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden_size, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(hidden_size, elementwise_affine=False, eps=1e-6)
        self.attn = Attention(hidden_size, num_heads)
        self.mlp = nn.Sequential(nn.Linear(hidden_size, int(hidden_size * mlp_ratio)), nn.GELU(approximate="tanh"), nn.Linear(int(hidden_size * mlp_ratio), hidden_size))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden_size, 6 * hidden_size))

    def forward(self, x, c):
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.adaLN_modulation(c).chunk(6, dim=1)
        x = x + gate_msa.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift_msa, scale_msa))
        x = x + gate_mlp.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_mlp, scale_mlp))
        return x


class DiT(nn.Module):
    def __init__(self):
        super().__init__()
        self.x_embedder = nn.Conv2d(4, 40, 2, 2)
        self.pos_embed = nn.Parameter(torch.randn(1, 16, 40) * 0.2, requires_grad=False)
        self.t = nn.Linear(8, 40)
        self.blocks = nn.ModuleList([DiTBlock() for _ in range(3)])

    def forward(self, x, t):
        x = self.x_embedder(x).flatten(2).transpose(1, 2) + self.pos_embed
        c = self.t(torch.cat([torch.cos(t[:, None] * torch.arange(1, 5)), torch.sin(t[:, None] * torch.arange(1, 5))], -1))
        for b in self.blocks:
            x = b(x, c)
        return x


with torch.random.fork_rng():
    torch.manual_seed(107)
    model = DiT().eval()
inputs = (torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(107)), torch.tensor([0.3, 1.7]))
