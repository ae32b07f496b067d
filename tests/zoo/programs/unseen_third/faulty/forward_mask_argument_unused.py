"""Drop-in self attention for our ASR encoder."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ASRSelfAttention(nn.Module):
    def __init__(self, size=36, n_heads=4, dropout_rate=0.1):
        super().__init__()
        assert size % n_heads == 0
        self.n_heads = n_heads
        self.linear_qkv = nn.Linear(size, 3 * size)
        self.linear_out = nn.Linear(size, size)
        self.p = dropout_rate

    def forward(self, x, mask=None, cache=None):
        """mask: (batch, 1, time), True for valid frames"""
        b, t, c = x.size()
        q, k, v = [u.view(b, t, self.n_heads, -1).transpose(1, 2) for u in self.linear_qkv(x).chunk(3, -1)]
        attn_mask = None
        if mask is not None and mask.dim() == 4:
            attn_mask = mask
        y = F.scaled_dot_product_attention(q, k, v, attn_mask, self.p if self.training else 0.0)  # fault: AS208|AS202
        return self.linear_out(y.transpose(1, 2).reshape(b, t, c))


torch.manual_seed(0)
model = ASRSelfAttention().eval()
inputs = {
    "x": torch.randn(3, 12, 36, generator=torch.Generator().manual_seed(0)),
    "mask": (torch.arange(12)[None] < torch.tensor([12, 7, 9])[:, None]).unsqueeze(1),
}
