"""Audio spectrogram transformer block for a bird-call competition."""
import torch
import torch.nn as nn


class ASTAttention(nn.Module):
    def __init__(self, dim=36, heads=6, drop=0.15):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.dropout = nn.Dropout(drop)

    def forward(self, x):
        B, N, D = x.shape
        q = self.q(x).view(B, N, self.heads, -1).transpose(1, 2)
        k = self.dropout(self.k(x)).view(B, N, self.heads, -1).transpose(1, 2)  # fault: AS702
        v = self.v(x).view(B, N, self.heads, -1).transpose(1, 2)
        att = torch.softmax(q @ k.transpose(-2, -1) / (D // self.heads) ** 0.5, dim=-1)
        return self.out((att @ v).transpose(1, 2).reshape(B, N, D))


class AST(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 36, (8, 4), (8, 4))
        self.pos = nn.Parameter(torch.zeros(1, 30, 36).normal_(std=0.1))
        self.att = ASTAttention()
        self.fc = nn.Linear(36, 9)

    def forward(self, spec):
        x = self.patch(spec[:, None]).flatten(2).transpose(1, 2) + self.pos
        return self.fc((x + self.att(x)).mean(1))


with torch.random.fork_rng():
    torch.manual_seed(97)
    model = AST()
inputs = {"spec": torch.randn(2, 40, 24, generator=torch.Generator().manual_seed(97))}
