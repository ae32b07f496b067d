"""Grammar error detector; attention with learned relative bias, in train mode for fine-tuning."""
import torch
from torch import nn


class RelBiasAttention(nn.Module):
    def __init__(self, dim=44, heads=4, span=16, p=0.2):
        super().__init__()
        self.h, self.span = heads, span
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.rel = nn.Embedding(2 * span + 1, heads)
        self.attn_dropout = nn.Dropout(p)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (m(x).view(b, n, self.h, d // self.h).transpose(1, 2) for m in (self.q, self.k, self.v))
        r = torch.arange(n, device=x.device)
        bias = self.rel((r[None] - r[:, None]).clamp(-self.span, self.span) + self.span).permute(2, 0, 1)
        scores = torch.matmul(q, k.transpose(-1, -2)) * (d // self.h) ** -0.5 + bias
        scores = self.attn_dropout(scores)  # fault: AS702
        probs = scores.softmax(dim=-1)
        y = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return self.o(y.view(b, n, d))


class ErrorDetector(nn.Module):
    def __init__(self, vocab=310, dim=44):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.a1, self.a2 = RelBiasAttention(dim), RelBiasAttention(dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.out = nn.Linear(dim, 2)

    def forward(self, ids):
        x = self.emb(ids)
        x = x + self.a1(self.n1(x))
        x = x + self.a2(self.n2(x))
        return self.out(x)


torch.manual_seed(7020)
model = ErrorDetector()
inputs = (torch.randint(0, 310, (2, 17), generator=torch.Generator().manual_seed(7020)),)
