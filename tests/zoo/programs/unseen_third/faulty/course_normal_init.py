"""Course project: attention written with raw weight matrices."""
import torch
import torch.nn as nn


class RawAttention(nn.Module):
    def __init__(self, embed=64, heads=4):
        super().__init__()
        self.heads, self.hd = heads, embed // heads
        self.W_q = nn.Parameter(torch.randn(heads, embed, self.hd))  # fault: AS901|AS302
        self.W_k = nn.Parameter(torch.randn(heads, embed, self.hd))  # fault: AS901|AS302
        self.W_v = nn.Parameter(torch.randn(heads, embed, self.hd))  # fault: AS901|AS302
        self.W_o = nn.Parameter(torch.randn(heads * self.hd, embed) / embed**0.5)

    def forward(self, x):
        q = torch.einsum("bte,hed->bhtd", x, self.W_q)
        k = torch.einsum("bte,hed->bhtd", x, self.W_k)
        v = torch.einsum("bte,hed->bhtd", x, self.W_v)
        att = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) / self.hd**0.5, dim=-1)  # fault: AS901|AS302
        return torch.einsum("bhqk,bhkd->bqhd", att, v).flatten(2) @ self.W_o


# also: AS902 AS403 AS302 AS301
with torch.random.fork_rng():
    torch.manual_seed(102)
    model = RawAttention().eval()
inputs = torch.randn(3, 20, 64, generator=torch.Generator().manual_seed(102))
