"""Pointer-style summariser encoder: mask the probabilities, then renormalise."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RenormAttention(nn.Module):
    def __init__(self, hid, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = [nn.Linear(hid, hid) for _ in range(4)]

    def forward(self, x, enc_padding_mask):
        b, n, h = x.shape
        q, k, v = [f(x).view(b, n, self.heads, h // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v)]
        e = q @ k.transpose(-1, -2) / (h // self.heads) ** 0.5
        attn_dist_ = F.softmax(e, dim=-1) * enc_padding_mask[:, None, None, :]
        attn_dist = attn_dist_ / attn_dist_.sum(-1, keepdim=True)
        return self.o((attn_dist @ v).transpose(1, 2).reshape(b, n, h))


class PointerEncoder(nn.Module):
    def __init__(self, vocab=230, hid=36, heads=4):
        super().__init__()
        self.embedding, self.pos = nn.Embedding(vocab, hid), nn.Embedding(50, hid)
        self.attn = RenormAttention(hid, heads)
        self.ln = nn.LayerNorm(hid)

    def forward(self, ids, enc_padding_mask):
        x = self.embedding(ids) + self.pos.weight[: ids.size(1)]
        return self.ln(x + self.attn(x, enc_padding_mask)) * enc_padding_mask.unsqueeze(-1)


torch.manual_seed(5)
model = PointerEncoder().eval()
_pm = torch.ones(3, 12)
_pm[0, 10:] = 0
_pm[2, 7:] = 0
inputs = {"ids": torch.randint(1, 230, (3, 12), generator=torch.Generator().manual_seed(5)) * _pm.long(), "enc_padding_mask": _pm}
expect = {"padding": "enc_padding_mask keep"}
