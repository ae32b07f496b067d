"""Triangle attention around the starting node on pair features of a protein."""
import torch
import torch.nn as nn


class TriangleAttentionStartingNode(nn.Module):
    def __init__(self, c_in=20, c_hidden=6, no_heads=3, inf=1e9):
        super().__init__()
        self.no_heads, self.c_hidden, self.inf = no_heads, c_hidden, inf
        self.layer_norm = nn.LayerNorm(c_in)
        self.linear = nn.Linear(c_in, no_heads, bias=False)
        self.linear_q = nn.Linear(c_in, c_hidden * no_heads, bias=False)
        self.linear_k = nn.Linear(c_in, c_hidden * no_heads, bias=False)
        self.linear_v = nn.Linear(c_in, c_hidden * no_heads, bias=False)
        self.linear_g = nn.Linear(c_in, c_hidden * no_heads)
        self.linear_o = nn.Linear(c_hidden * no_heads, c_in)

    def forward(self, x, mask=None):
        if mask is None:
            mask = x.new_ones(x.shape[:-1])
        x = self.layer_norm(x)
        mask_bias = (self.inf * (mask - 1))[..., :, None, None, :]
        triangle_bias = self.linear(x).permute(0, 3, 1, 2).unsqueeze(-4)
        b, i, j, _ = x.shape
        q = self.linear_q(x).view(b, i, j, self.no_heads, -1).transpose(-2, -3) / self.c_hidden ** 0.5
        k = self.linear_k(x).view(b, i, j, self.no_heads, -1).transpose(-2, -3)
        v = self.linear_v(x).view(b, i, j, self.no_heads, -1).transpose(-2, -3)
        a = torch.matmul(q, k.transpose(-1, -2))
        a += mask_bias
        a += triangle_bias
        a = torch.nn.functional.softmax(a, -1)
        o = torch.matmul(a, v).transpose(-2, -3).flatten(-2)
        return self.linear_o(torch.sigmoid(self.linear_g(x)) * o)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(26)
        return TriangleAttentionStartingNode().eval()


inputs = (torch.randn(2, 8, 8, 20, generator=torch.Generator().manual_seed(27)),)
