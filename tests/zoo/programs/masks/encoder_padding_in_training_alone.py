"""Clinical codes of a patient, padded to the longest history."""

import torch
from torch import nn


class Visit(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, empty):
        h = self.norm(x)
        return x + self.attention(h, h, h, key_padding_mask=empty, need_weights=False)[0]


class Patient(nn.Module):
    def __init__(self, codes=80, width=32):
        super().__init__()
        self.codes = nn.Embedding(codes, width, padding_idx=0)
        self.when = nn.Embedding(24, width)
        self.visits = nn.ModuleList(Visit(width) for _ in range(2))
        self.risk = nn.Linear(width, 1)

    def forward(self, codes):
        empty = codes == 0
        x = self.codes(codes) + self.when.weight[: codes.shape[1]]
        for visit in self.visits:
            x = visit(x, empty if self.training else None)  # fault: AS202
        real = (~empty).unsqueeze(-1)
        return self.risk((x * real).sum(1) / real.sum(1))


def model():
    torch.manual_seed(67)
    return Patient().eval()


inputs = torch.randint(1, 80, (4, 9), generator=torch.Generator().manual_seed(67))
inputs[1, 5:] = 0
inputs[3, 7:] = 0
expect = {"padding": "codes pad=0"}
