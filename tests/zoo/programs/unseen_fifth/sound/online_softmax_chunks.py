"""Memory-efficient attention in plain Python: loops over key blocks with a running max and sum."""
import torch
import torch.nn as nn


def flash_ref(q, k, v, block=4, causal=True):
    scale = q.shape[-1] ** -0.5
    n = q.shape[-2]
    out = torch.zeros_like(q)
    m = q.new_full((*q.shape[:-1], 1), float("-inf"))
    l = q.new_zeros(*q.shape[:-1], 1)
    qi = torch.arange(n, device=q.device)[:, None]
    for j in range(0, k.shape[-2], block):
        kj, vj = k[..., j: j + block, :], v[..., j: j + block, :]
        s = q @ kj.transpose(-1, -2) * scale
        if causal:
            s = s.masked_fill(torch.arange(j, j + kj.shape[-2], device=q.device)[None] > qi, float("-inf"))
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        p = torch.exp(s - m_new)
        alpha = torch.exp(m - m_new)
        l = l * alpha + p.sum(-1, keepdim=True)
        out = out * alpha + p @ vj
        m = m_new
    return out / l


class BlockwiseLM(nn.Module):
    def __init__(self, vocab=76, d=40, h=4):
        super().__init__()
        self.h = h
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.ln, self.qkv, self.o, self.head = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, vocab)

    def forward(self, ids):
        b, t = ids.shape
        x = self.emb(ids) + self.pos.weight[:t]
        q, k, v = self.qkv(self.ln(x)).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        x = x + self.o(flash_ref(q, k, v).transpose(1, 2).reshape(b, t, -1))
        return self.head(x)


torch.manual_seed(16)
model = BlockwiseLM().eval()
inputs = (torch.randint(0, 76, (2, 14), generator=torch.Generator().manual_seed(16)),)
expect = {"causal": True}
