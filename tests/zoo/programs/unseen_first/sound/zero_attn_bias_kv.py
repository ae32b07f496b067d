"""Multi-instance classifier using MultiheadAttention with add_zero_attn and add_bias_kv."""
import torch
from torch import nn


class BagClassifier(nn.Module):
    def __init__(self, features=15, dim=32):
        super().__init__()
        self.project = nn.Linear(features, dim)
        self.attend = nn.MultiheadAttention(dim, 4, add_bias_kv=True, add_zero_attn=True, batch_first=True)
        self.query = nn.Parameter(torch.randn(1, 1, dim))
        self.decide = nn.Linear(dim, 3)

    def forward(self, bag, missing):
        x = self.project(bag)
        pooled, weights = self.attend(self.query.expand(len(bag), -1, -1), x, x, key_padding_mask=missing, average_attn_weights=False)
        return self.decide(pooled[:, 0]), weights


torch.manual_seed(20)
model = BagClassifier().eval()
inputs = {"bag": torch.randn(4, 11, 15), "missing": torch.arange(11) >= torch.tensor([[11], [4], [7], [9]])}
expect = {"padding": "missing drop", "positions": False}
