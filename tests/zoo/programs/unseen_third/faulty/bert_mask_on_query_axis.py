"""codertimo-style BERT rebuilt: single attention class, mask from ids."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def forward(self, query, key, value, mask=None):
        scores = torch.matmul(query, key.transpose(-2, -1)) / query.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)  # fault: AS202|AS211
        p_attn = F.softmax(scores, dim=-1)
        return torch.matmul(p_attn, value), p_attn


class BERT(nn.Module):
    def __init__(self, vocab_size=52, hidden=30, attn_heads=5, n_layers=2):
        super().__init__()
        self.h = attn_heads
        self.token, self.position = nn.Embedding(vocab_size, hidden, padding_idx=0), nn.Embedding(50, hidden)
        self.qkvo = nn.ModuleList(nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(4)) for _ in range(n_layers))
        self.norm = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(n_layers))
        self.attention = Attention()
        self.mlm = nn.Linear(hidden, vocab_size)

    def forward(self, x):
        b, n = x.shape
        mask = (x > 0).unsqueeze(1).unsqueeze(-1)  # fault: AS202|AS211
        h = self.token(x) + self.position(torch.arange(n))
        for (q, k, v, o), ln in zip(self.qkvo, self.norm):
            z = ln(h)
            heads = [f(z).view(b, n, self.h, -1).transpose(1, 2) for f in (q, k, v)]
            c, _ = self.attention(*heads, mask=mask)
            h = h + o(c.transpose(1, 2).contiguous().view(b, n, -1))
        return self.mlm(h)


torch.manual_seed(3)
model = BERT().eval()
_x = torch.randint(1, 52, (2, 12), generator=torch.Generator().manual_seed(6))
_x[1, 8:] = 0
inputs = {"x": _x}
expect = {"padding": "x pad=0"}
# also: AS203
