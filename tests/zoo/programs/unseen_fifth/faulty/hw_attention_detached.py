"""Assignment: self attention layer that also stores its map for plotting."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, in_dim, key_dim, out_dim):
        super().__init__()
        self.lin_q = nn.Linear(in_dim, key_dim)
        self.lin_k = nn.Linear(in_dim, key_dim)
        self.lin_v = nn.Linear(in_dim, out_dim)
        self.key_dim = key_dim
        self.last_map = None

    def forward(self, x):
        q = self.lin_q(x)
        k = self.lin_k(x)
        v = self.lin_v(x)
        logits = torch.baddbmm(torch.zeros(1, 1, 1), q, k.transpose(1, 2), alpha=self.key_dim ** -0.5)
        self.last_map = F.softmax(logits, dim=2).detach()  # fault: AS902
        return self.last_map @ v  # fault: AS902


class DigitSequence(nn.Module):
    def __init__(self, in_dim=10, hidden=26, classes=10):
        super().__init__()
        self.gru = nn.GRU(in_dim, hidden, batch_first=True)
        self.attn = SelfAttention(hidden, 16, hidden)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x):
        h, _ = self.gru(x)
        h = h + self.attn(h)
        return self.fc(h.mean(1))


torch.manual_seed(0)
model = DigitSequence().eval()
inputs = torch.randn(4, 9, 10, generator=torch.Generator().manual_seed(1))
