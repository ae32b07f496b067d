"""Batch decoding block: causal and padding bias with -inf."""
import torch
import torch.nn as nn


class PaddedCausal(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.in_proj, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, attention_mask):
        b, n, d = x.shape
        q, k, v = self.in_proj(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (d // self.h) ** -0.5
        keep = torch.ones(n, n, dtype=torch.bool).tril()[None] & attention_mask[:, None, :].bool()
        keep = keep | torch.eye(n, dtype=torch.bool)
        scores = scores.masked_fill(~keep[:, None], float("-inf"))
        probs = torch.softmax(scores, dim=-1)
        return self.out((probs @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = PaddedCausal().eval()
inputs = {
    "x": torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0)),
    "attention_mask": torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [1] * 8]),
}
expect = {"causal": True, "padding": "attention_mask keep"}
