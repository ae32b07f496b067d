"""Deployment copy of a GPT-2 like layer, weights cast to fp16."""
import torch
import torch.nn as nn

MASK_VALUE = -1e9  # fault: AS207


class HalfAttention(nn.Module):
    def __init__(self, nx=48, n_head=4, n_ctx=64):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(nx, nx * 3)
        self.c_proj = nn.Linear(nx, nx)
        self.register_buffer("bias", torch.tril(torch.ones(n_ctx, n_ctx)).bool())

    def split_heads(self, x):
        return x.view(*x.shape[:-1], self.n_head, -1).transpose(-3, -2)

    def forward(self, x):
        q, k, v = map(self.split_heads, self.c_attn(x).chunk(3, -1))
        w = torch.matmul(q, k.transpose(-1, -2)) / (v.size(-1) ** 0.5)
        nd, ns = w.shape[-2:]
        w = w.masked_fill(~self.bias[ns - nd: ns, :ns], MASK_VALUE)  # fault: AS207
        w = torch.softmax(w.float(), dim=-1).to(v.dtype)
        a = torch.matmul(w, v).transpose(-3, -2).flatten(-2)
        return self.c_proj(a)


torch.manual_seed(2)
model = HalfAttention().half().eval()
inputs = torch.randn(2, 10, 48, generator=torch.Generator().manual_seed(2)).half()
