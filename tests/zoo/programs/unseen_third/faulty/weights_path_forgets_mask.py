"""Decoder that uses SDPA in training and the readable path when attentions are asked for."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TwoPath(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h, self.qkv, self.o = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, output_attentions=False):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        attn = None
        if not output_attentions:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            attn = torch.softmax(q @ k.mT * (d // self.h) ** -0.5, dim=-1)  # fault: AS201
            y = attn @ v
        return self.o(y.transpose(1, 2).flatten(2)), attn


class Decoder(nn.Module):
    def __init__(self, vocab=53, d=32):
        super().__init__()
        self.e, self.p, self.a, self.n, self.head = nn.Embedding(vocab, d), nn.Embedding(40, d), TwoPath(d), nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids, output_attentions=False):
        x = self.e(ids) + self.p.weight[: ids.size(1)]
        y, attn = self.a(self.n(x), output_attentions)
        return {"logits": self.head(x + y), "attentions": attn}


torch.manual_seed(0)
model = Decoder().eval()
inputs = {"ids": torch.randint(0, 53, (2, 9), generator=torch.Generator().manual_seed(0)), "output_attentions": True}
expect = {"causal": True}
