"""Left-padded batch with rotary embedding: only distances matter."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RotLM(nn.Module):
    def __init__(self, vocab=60, d=32, h=4):
        super().__init__()
        self.h = h
        self.e, self.n, self.qkv, self.o, self.head = nn.Embedding(vocab, d), nn.RMSNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, vocab)

    def rope(self, x):
        n, half = x.shape[-2], x.shape[-1] // 2
        a = torch.outer(torch.arange(n).float(), 10000 ** (-torch.arange(half) / half))
        l, r = x[..., :half], x[..., half:]
        return torch.cat((l * a.cos() - r * a.sin(), r * a.cos() + l * a.sin()), -1)

    def forward(self, input_ids, attention_mask):
        b, n = input_ids.shape
        x = self.e(input_ids)
        q, k, v = self.qkv(self.n(x)).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        q, k = self.rope(q), self.rope(k)
        keep = torch.ones(n, n, dtype=torch.bool).tril() & attention_mask.bool()[:, None, None]
        bias = torch.zeros(keep.shape).masked_fill(~keep, torch.finfo(x.dtype).min)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.head(x + self.o(y.transpose(1, 2).flatten(2)))


torch.manual_seed(0)
model = RotLM().eval()
_m = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7, [0, 0, 0, 0, 1, 1, 1]])
inputs = {"input_ids": torch.randint(1, 60, (3, 7), generator=torch.Generator().manual_seed(0)) * _m, "attention_mask": _m}
expect = {"causal": True, "padding": "attention_mask keep"}
