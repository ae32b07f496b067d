"""Patches of pictures of any size: the grid of positions is stretched to each picture's shape."""
import torch
import torch.nn.functional as F
from torch import nn


class NaFlexEncoder(nn.Module):
    def __init__(self, patch=12, width=32, heads=4, grid=4):
        super().__init__()
        self.grid, self.heads = grid, heads
        self.patch_embedding = nn.Linear(patch, width)
        self.position_embedding = nn.Embedding(grid * grid, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def positions(self, spatial_shapes, length):
        table = self.position_embedding.weight.view(self.grid, self.grid, -1)
        rows, columns = spatial_shapes[:, :1], spatial_shapes[:, 1:]
        at = torch.arange(length)[None]
        at = at * (at < rows * columns)
        row = (at // columns.clamp(min=1)) * self.grid // rows.clamp(min=1)
        column = (at % columns.clamp(min=1)) * self.grid // columns.clamp(min=1)
        return table[row.clamp(max=self.grid - 1), column.clamp(max=self.grid - 1)]

    def forward(self, pixel_values, pixel_attention_mask, spatial_shapes):
        b, n, _ = pixel_values.shape
        x = self.patch_embedding(pixel_values) + self.positions(spatial_shapes, n)
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        keep = pixel_attention_mask[:, None, None].bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return x + self.proj(y.transpose(1, 2).flatten(2))


def model():
    torch.manual_seed(6)
    return NaFlexEncoder().eval()


inputs = {
    "pixel_values": torch.randn(2, 18, 12, generator=torch.Generator().manual_seed(7)),
    "pixel_attention_mask": torch.tensor([[1] * 18, [1] * 15 + [0] * 3]),
    "spatial_shapes": torch.tensor([[3, 6], [3, 5]]),
}
