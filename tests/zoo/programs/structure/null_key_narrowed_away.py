"""Cross attention to text with one learned null key and value, which every query may fall back to."""

import torch
from torch import nn
from torch.nn import functional as F


class NullAttention(nn.Module):
    def __init__(self, width=32, text=20, heads=4):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_kv = (
            nn.Linear(width, width, bias=False),
            nn.Linear(text, 2 * width, bias=False),
        )
        self.null_k, self.null_v = (
            nn.Parameter(torch.randn(heads, 1, width // heads)) for _ in range(2)
        )
        self.to_out = nn.Linear(width, width)

    def forward(self, x, words):
        b = x.shape[0]
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in (self.to_q(x), *self.to_kv(words).chunk(2, -1))
        )
        k = torch.cat((self.null_k.expand(b, -1, -1, -1), k), dim=2)
        v = torch.cat((self.null_v.expand(b, -1, -1, -1), v), dim=2)
        n = words.shape[1]
        k, v = k.narrow(2, 1, n), v.narrow(2, 1, n)  # fault: AS903|AS208
        mixed = F.scaled_dot_product_attention(q, k, v)
        return x + self.to_out(mixed.transpose(1, 2).flatten(2))


torch.manual_seed(41)
model = NullAttention().eval()
_draw = torch.Generator().manual_seed(41)
inputs = {
    "x": torch.randn(2, 9, 32, generator=_draw),
    "words": torch.randn(2, 6, 20, generator=_draw),
}
