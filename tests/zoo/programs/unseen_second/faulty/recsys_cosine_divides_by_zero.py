"""Cosine attention over purchase histories; item 0 is the padding row of the table."""

import torch
import torch.nn as nn


class CosineAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.tau = nn.Parameter(torch.tensor(5.0))

    def forward(self, x, keep):
        q, k = self.wq(x), self.wk(x)
        q = q / q.norm(dim=-1, keepdim=True)  # fault: AS802
        k = k / k.norm(dim=-1, keepdim=True)  # fault: AS802
        sim = self.tau * q @ k.transpose(1, 2)
        sim = sim.masked_fill(~keep[:, None, :], -1e9)
        return sim.softmax(-1) @ self.wv(x)


class Basket(nn.Module):
    def __init__(self, items=75, dim=24):
        super().__init__()
        self.table = nn.Embedding(items, dim, padding_idx=0)
        self.first, self.second = CosineAttention(dim), CosineAttention(dim)

    def forward(self, basket):
        keep = basket > 0
        x = self.table(basket)
        x = x + self.first(x, keep)
        x = x + self.second(x, keep)
        return (x * keep.unsqueeze(-1)).sum(1) / keep.sum(1, keepdim=True)


def model():
    torch.manual_seed(50)
    return Basket().eval()


def inputs():
    torch.manual_seed(51)
    basket = torch.randint(1, 75, (4, 9))
    basket[1, 5:] = 0
    basket[3, 7:] = 0
    return {"basket": basket}


expect = {"padding": "basket pad=0", "positions": False}
# also: AS902 AS203
