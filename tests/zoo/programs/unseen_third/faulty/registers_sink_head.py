"""ViT with register tokens; keys of the registers carry a learned offset."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RegisterAttention(nn.Module):
    def __init__(self, dim=32, heads=4, registers=1):
        super().__init__()
        self.heads = heads
        self.reg = nn.Parameter(torch.randn(registers, dim))
        self.reg_logit = nn.Parameter(torch.full((heads,), 9.0))  # fault: AS404
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        x = torch.cat([self.reg.expand(b, -1, -1), x], 1)
        q, k, v = self.qkv(x).view(b, -1, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        bias = torch.zeros(self.heads, 1, x.size(1))
        bias = torch.cat([self.reg_logit.view(-1, 1, 1).expand(-1, 1, self.reg.size(0)), bias[..., self.reg.size(0) :]], -1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(b, -1, x.size(1), -1))  # fault: AS404
        return self.out(y.transpose(1, 2).reshape(b, -1, d))[:, self.reg.size(0) :]


with torch.random.fork_rng():
    torch.manual_seed(68)
    model = RegisterAttention().eval()
inputs = torch.randn(2, 19, 32, generator=torch.Generator().manual_seed(68))
