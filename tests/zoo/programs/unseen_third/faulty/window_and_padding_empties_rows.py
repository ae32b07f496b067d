"""Bidirectional local attention with -inf and key padding (protein fragments)."""
import torch
import torch.nn as nn


class LocalProtein(nn.Module):
    def __init__(self, n_aa=25, d=32, h=4, radius=2):
        super().__init__()
        self.h, self.radius = h, radius
        self.embed, self.pos = nn.Embedding(n_aa, d, padding_idx=0), nn.Embedding(60, d)
        self.to_qkv, self.to_out, self.norm = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d)
        self.head = nn.Linear(d, 8)

    def forward(self, seq):
        b, n = seq.shape
        x = self.embed(seq) + self.pos.weight[:n]
        q, k, v = self.to_qkv(self.norm(x)).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        i = torch.arange(n)
        near = (i[:, None] - i[None]).abs() <= self.radius
        ok = near[None] & (seq != 0)[:, None, :]  # fault: AS203
        bias = torch.zeros(b, 1, n, n).masked_fill(~ok[:, None], float("-inf"))  # fault: AS203
        a = torch.softmax(q @ k.transpose(-1, -2) / q.size(-1) ** 0.5 + bias, dim=-1)  # fault: AS203
        x = x + self.to_out((a @ v).transpose(1, 2).reshape(b, n, -1))
        return self.head(x)


torch.manual_seed(0)
model = LocalProtein().eval()
_s = torch.randint(1, 25, (2, 14), generator=torch.Generator().manual_seed(0))
_s[1, 7:] = 0
inputs = {"seq": _s}
# also: AS802, AS902
