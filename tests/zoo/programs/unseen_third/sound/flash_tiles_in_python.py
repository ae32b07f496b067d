"""FlashAttention forward in plain torch: tiles over queries and keys, causal."""
import torch
import torch.nn as nn


def flash_forward(Q, K, V, Br=4, Bc=3):
    B, H, N, d = Q.shape
    O = []
    for i in range(0, N, Br):
        Qi = Q[:, :, i : i + Br] * d**-0.5
        m = torch.full((B, H, Qi.size(2), 1), float("-inf"))
        l = torch.zeros(B, H, Qi.size(2), 1)
        acc = torch.zeros_like(Qi)
        for j in range(0, min(i + Br, N), Bc):
            S = Qi @ K[:, :, j : j + Bc].transpose(-1, -2)
            rows = torch.arange(i, i + Qi.size(2))[:, None]
            cols = torch.arange(j, j + S.size(-1))[None]
            S = S.masked_fill(cols > rows, float("-inf"))
            m_new = torch.maximum(m, S.amax(-1, keepdim=True))
            P = torch.exp(S - m_new)
            alpha = torch.exp(m - m_new)
            l = alpha * l + P.sum(-1, keepdim=True)
            acc = alpha * acc + P @ V[:, :, j : j + Bc]
            m = m_new
        O.append(acc / l)
    return torch.cat(O, dim=2)


class Attn(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h, self.qkv, self.o = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        return self.o(flash_forward(q, k, v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = Attn().eval()
inputs = torch.randn(2, 10, 32, generator=torch.Generator().manual_seed(0))
expect = {"causal": True}
