"""Self-attention written with einsum over explicit parameter tensors, no submodules."""

import torch
from torch import Tensor, nn


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q, k, v: [batch, position, head, feature]; returns the same layout."""
    logits = torch.einsum("bqhd,bkhd->bhqk", q, k)  # fault: AS106
    weights = torch.softmax(logits, dim=3)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)


class EinsumAttention(nn.Module):
    def __init__(self, width: int, heads: int, size: int):
        super().__init__()
        self.size = size
        std = width**-0.5
        self.w_q = nn.Parameter(torch.randn(width, heads, size) * std)
        self.w_k = nn.Parameter(torch.randn(width, heads, size) * std)
        self.w_v = nn.Parameter(torch.randn(width, heads, size) * std)
        self.w_o = nn.Parameter(torch.randn(heads, size, width) * (heads * size) ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        q = torch.einsum("btw,whd->bhtd", x, self.w_q) * self.size**-0.5
        k = torch.einsum("btw,whd->bhtd", x, self.w_k)
        v = torch.einsum("btw,whd->bhtd", x, self.w_v)
        return torch.einsum("bhtd,hdw->btw", attend(q, k, v), self.w_o)  # fault: AS106


def model():
    with torch.random.fork_rng():
        torch.manual_seed(30)
        return EinsumAttention(width=44, heads=4, size=12)


def inputs():
    return torch.randn(3, 10, 44, generator=torch.Generator().manual_seed(31))

# also: AS501
