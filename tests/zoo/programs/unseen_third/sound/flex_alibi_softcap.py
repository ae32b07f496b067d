"""flex_attention with a score_mod (ALiBi, soft cap) and a causal block mask."""
import torch
import torch.nn as nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class FlexLM(nn.Module):
    def __init__(self, vocab=52, d=32, h=4, cap=15.0):
        super().__init__()
        self.h, self.cap = h, cap
        self.emb, self.norm = nn.Embedding(vocab, d), nn.LayerNorm(d)
        self.qkv, self.o, self.head = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, vocab)

    def forward(self, ids):
        b, n = ids.shape
        x = self.emb(ids)
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)

        def score_mod(score, b_, h_, qi, ki):
            score = self.cap * torch.tanh(score / self.cap)
            return score - torch.exp2(-(h_ + 1) * 8.0 / self.h) * (qi - ki)

        mask = create_block_mask(lambda b_, h_, qi, ki: qi >= ki, None, None, n, n, device="cpu")
        y = flex_attention(q, k, v, score_mod=score_mod, block_mask=mask)
        return self.head(x + self.o(y.transpose(1, 2).flatten(2)))


torch.manual_seed(0)
model = FlexLM().eval().requires_grad_(False)
expect = {"causal": True}
