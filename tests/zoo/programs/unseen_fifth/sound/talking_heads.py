"""Talking-heads encoder for slot filling: heads are mixed before and after the softmax."""
import torch
from torch import nn, einsum


class TalkingHeads(nn.Module):
    def __init__(self, dim=40, heads=5):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.pre = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.post = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        dots = einsum("bhid,bhjd->bhij", q * self.scale, k)
        dots = einsum("bhij,hg->bgij", dots, self.pre)
        attn = dots.softmax(dim=-1)
        attn = einsum("bhij,hg->bgij", attn, self.post)
        out = einsum("bhij,bhjd->bhid", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


class SlotFiller(nn.Module):
    def __init__(self, vocab=150, dim=40, slots=8):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, dim), nn.Embedding(50, dim)
        self.layers = nn.ModuleList([TalkingHeads(dim), TalkingHeads(dim)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])
        self.out = nn.Linear(dim, slots)

    def forward(self, ids):
        x = self.e(ids) + self.p(torch.arange(ids.size(1), device=ids.device))
        for n, l in zip(self.norms, self.layers):
            x = x + l(n(x))
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(10)
    model = SlotFiller().eval()
inputs = (torch.randint(0, 150, (3, 11), generator=torch.Generator().manual_seed(10)),)
