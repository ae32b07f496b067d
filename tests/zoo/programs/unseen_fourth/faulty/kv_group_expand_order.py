"""Code LLM attention with three kv heads shared by expand."""
import torch
import torch.nn as nn


class SharedKV(nn.Module):
    def __init__(self, dim=60, heads=6, kv_heads=3):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wkv = nn.Linear(dim, 2 * kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def expand(self, x):
        b, t, _ = x.shape
        g = self.heads // self.kv_heads
        x = x.view(b, t, 1, self.kv_heads, self.hd).expand(-1, -1, g, -1, -1)  # fault: AS104
        return x.reshape(b, t, self.heads, self.hd)

    def forward(self, x):
        b, t, d = x.shape
        q = self.wq(x).view(b, t, self.heads, self.hd)
        k, v = map(self.expand, self.wkv(x).chunk(2, -1))
        s = torch.einsum("bthd,bshd->bhts", q, k) * self.hd ** -0.5
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), torch.finfo(s.dtype).min)
        return self.wo(torch.einsum("bhts,bshd->bthd", s.softmax(-1), v).reshape(b, t, d))


torch.manual_seed(10)
model = SharedKV().eval()
# note: AS501
