"""flash_attn with a CPU fallback of the same signature."""
import torch
import torch.nn as nn

try:
    from flash_attn import flash_attn_func
except ImportError:

    def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):
        """q, k, v: (batch, seqlen, nheads, headdim), returns the same."""
        softmax_scale = softmax_scale or q.shape[-1] ** -0.5
        s = torch.einsum("bthd,bshd->bhts", q * softmax_scale, k)
        if causal:
            t = s.shape[-1]
            s = s + torch.triu(torch.full((t, t), float("-inf"), device=s.device), 1)
        return torch.einsum("bhts,bshd->bthd", torch.softmax(s, dim=-1), v)


class Attn(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.hd = heads, d // heads
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.heads, self.hd) for t in (q, k, v))
        o = flash_attn_func(q, k, v, causal=True)
        return self.proj(o.reshape(b, n, d))


class LM(nn.Module):
    def __init__(self, vocab=72, d=40, heads=4):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.a, self.n = Attn(d, heads), nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab)

    def forward(self, tokens):
        x = self.emb(tokens) + self.pos.weight[: tokens.size(1)]
        return self.head(x + self.a(self.n(x)))


torch.manual_seed(0)
model = LM().eval()
