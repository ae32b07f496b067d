"""Right-to-left language model: flip, causal stack, flip back (ELMo's other half)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BackwardLM(nn.Module):
    def __init__(self, vocab=62, d=32, h=4):
        super().__init__()
        self.h = h
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.n, self.qkv, self.o, self.head = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.e(ids.flip(1)) + self.p.weight[: ids.shape[1]]
        b, n, d = x.shape
        q, k, v = self.qkv(self.n(x)).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return self.head(x).flip(1)


torch.manual_seed(0)
model = BackwardLM().eval()
