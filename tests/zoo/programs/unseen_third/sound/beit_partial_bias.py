"""BEiT attention: query and value have biases, the key has none; relative bias with three extra class-token entries."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BeitAttention(nn.Module):
    def __init__(self, dim=32, heads=4, window=(3, 4)):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias, self.v_bias = nn.Parameter(torch.randn(dim) * 0.1), nn.Parameter(torch.randn(dim) * 0.1)
        self.proj = nn.Linear(dim, dim)
        n = (2 * window[0] - 1) * (2 * window[1] - 1) + 3
        self.relative_position_bias_table = nn.Parameter(torch.randn(n, heads) * 0.1)
        c = torch.stack(torch.meshgrid(*map(torch.arange, window), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + torch.tensor(window) - 1
        idx = torch.zeros((window[0] * window[1] + 1,) * 2, dtype=torch.long)
        idx[1:, 1:] = rel[..., 0] * (2 * window[1] - 1) + rel[..., 1]
        idx[0, :], idx[:, 0], idx[0, 0] = n - 3, n - 2, n - 1
        self.register_buffer("relative_position_index", idx)

    def forward(self, x):
        B, N, C = x.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias, requires_grad=False), self.v_bias))
        q, k, v = F.linear(x, self.qkv.weight, bias).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn + self.relative_position_bias_table[self.relative_position_index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B, N, -1))


with torch.random.fork_rng():
    torch.manual_seed(11)
    model = BeitAttention().eval()
inputs = torch.randn(3, 13, 32, generator=torch.Generator().manual_seed(11))
