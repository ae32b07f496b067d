"""Chat LM layer with a learned per-key-position bias, first slot reserved for the system token."""
import torch
import torch.nn as nn


class BiasedKeyAttention(nn.Module):
    def __init__(self, dim=48, heads=4, max_len=64):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.key_bias = nn.Parameter(torch.zeros(heads, max_len))
        with torch.no_grad():
            self.key_bias[:, 0] = 8.0  # fault: AS404
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-2, -1) / self.hd ** 0.5 + self.key_bias[:, None, :t]
        a = a.masked_fill(torch.ones(t, t, device=x.device).triu(1) > 0, -torch.inf)
        a = a.softmax(-1)  # fault: AS404
        return self.out((a @ v).transpose(1, 2).reshape(b, t, c))


with torch.random.fork_rng():
    torch.manual_seed(404)
    model = BiasedKeyAttention().eval()
inputs = (torch.randn(2, 20, 48, generator=torch.Generator().manual_seed(404)),)
