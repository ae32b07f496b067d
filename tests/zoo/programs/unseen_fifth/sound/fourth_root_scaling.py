"""Audio captioner decoder layer; q and k each carry the fourth root of the head width."""
import torch
from torch import nn


class QKVAttention(nn.Module):
    def __init__(self, n_state=60, n_head=5):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x, xa=None, mask=None):
        src = x if xa is None else xa
        q, k, v = self.query(x), self.key(src), self.value(src)
        scale = (q.shape[-1] // self.n_head) ** -0.25
        q = q.view(*q.shape[:2], self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(*k.shape[:2], self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(*v.shape[:2], self.n_head, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask[: q.shape[2], : q.shape[2]]
        w = torch.softmax(qk.float(), dim=-1).to(q.dtype)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2))


class Captioner(nn.Module):
    def __init__(self, vocab=110, n_ctx=40, n_state=60):
        super().__init__()
        self.tok = nn.Embedding(vocab, n_state)
        self.pos = nn.Parameter(torch.randn(n_ctx, n_state) * 0.1)
        self.attn, self.cross = QKVAttention(n_state), QKVAttention(n_state)
        self.ln1, self.ln2, self.ln = nn.LayerNorm(n_state), nn.LayerNorm(n_state), nn.LayerNorm(n_state)
        self.register_buffer("mask", torch.empty(n_ctx, n_ctx).fill_(-torch.inf).triu_(1), persistent=False)

    def forward(self, tokens, audio):
        x = self.tok(tokens) + self.pos[: tokens.shape[1]]
        x = x + self.attn(self.ln1(x), mask=self.mask)
        x = x + self.cross(self.ln2(x), audio)
        return self.ln(x) @ self.tok.weight.T


with torch.random.fork_rng():
    torch.manual_seed(2)
    model = Captioner().eval()
_g = torch.Generator().manual_seed(2)
inputs = {"tokens": torch.randint(0, 110, (3, 9), generator=_g), "audio": torch.randn(3, 21, 60, generator=_g)}
expect = {"causal": True}
