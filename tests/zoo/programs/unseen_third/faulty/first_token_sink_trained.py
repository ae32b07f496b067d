"""Decoder layer whose keys carry a large begin-of-sequence direction."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SinkyDecoder(nn.Module):
    def __init__(self, vocab=50, d=32, h=4):
        super().__init__()
        self.h = h
        self.emb = nn.Embedding(vocab, d)
        self.bos_k = nn.Parameter(torch.full((h, 1, d // h), 4.0))
        self.q_bias = nn.Parameter(torch.full((h, 1, d // h), 1.0))
        self.qkv, self.o, self.lm = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.emb(ids)
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        q = q + self.q_bias
        k = torch.cat((k[:, :, :1] + self.bos_k, k[:, :, 1:]), 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS404
        return self.lm(x + self.o(y.transpose(1, 2).reshape(b, n, d)))


torch.manual_seed(0)
model = SinkyDecoder().eval()
# also: AS501, AS403
