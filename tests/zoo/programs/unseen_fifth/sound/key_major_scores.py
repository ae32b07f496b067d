"""JAX-minded author: scores are laid out (batch, key, query, head), softmax over axis 1."""
import torch
from torch import nn


class KeyMajor(nn.Module):
    def __init__(self, width=45, heads=3):
        super().__init__()
        hd = width // heads
        mk = lambda *s: nn.Parameter(torch.randn(*s) / s[0] ** 0.5)
        self.wq, self.wk, self.wv = mk(width, heads, hd), mk(width, heads, hd), mk(width, heads, hd)
        self.wo = nn.Parameter(torch.randn(heads, hd, width) / width ** 0.5)

    def forward(self, x):
        q = torch.einsum("BTC,CHD->BTHD", x, self.wq) / self.wq.shape[-1] ** 0.5
        k = torch.einsum("BSC,CHD->BSHD", x, self.wk)
        v = torch.einsum("BSC,CHD->BSHD", x, self.wv)
        logits = torch.einsum("BTHD,BSHD->BSTH", q, k)
        t = x.shape[1]
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).tril(-1)     # [key, query]
        logits = logits.masked_fill(future[None, :, :, None], float("-inf"))
        w = logits.softmax(dim=1)
        return torch.einsum("BSTH,BSHD,HDC->BTC", w, v, self.wo)


with torch.random.fork_rng():
    torch.manual_seed(15)
    model = KeyMajor().eval()
inputs = (torch.randn(2, 10, 45, generator=torch.Generator().manual_seed(15)),)
expect = {"causal": True}
