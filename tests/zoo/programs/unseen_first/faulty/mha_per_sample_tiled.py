"""Scene reader: one boolean visibility matrix per sample given to nn.MultiheadAttention."""
import torch
from torch import nn


class SceneReader(nn.Module):
    def __init__(self, d=36, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(7, d)
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)

    def forward(self, objects, visible):
        x = self.embed(objects)
        hidden = (~visible).repeat(self.heads, 1, 1)  # fault: AS211
        y, maps = self.attn(x, x, x, attn_mask=hidden, average_attn_weights=False)  # fault: AS211
        return x + y, maps


torch.manual_seed(24)
model = SceneReader().eval()
inputs = {"objects": torch.randn(3, 8, 7), "visible": (torch.rand(3, 8, 8) > 0.4) | torch.eye(8, dtype=torch.bool)}
expect = {"positions": False}
