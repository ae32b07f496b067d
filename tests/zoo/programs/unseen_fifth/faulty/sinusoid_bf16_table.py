"""Speech transcript encoder: sinusoidal table kept in bfloat16 to save memory, 2k positions."""
import math
import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    def __init__(self, dim, max_len=2048, dtype=torch.bfloat16):
        super().__init__()
        pos = torch.arange(max_len, dtype=dtype)[:, None]  # fault: AS505
        freq = torch.exp(torch.arange(0, dim, 2, dtype=dtype) * (-math.log(10000.0) / dim))
        pe = torch.empty(max_len, dim)
        pe[:, 0::2] = torch.sin(pos * freq)  # fault: AS505
        pe[:, 1::2] = torch.cos(pos * freq)  # fault: AS505
        self.register_buffer("pe", pe, persistent=False)

    def forward(self, n):
        return self.pe[:n]


class TranscriptEncoder(nn.Module):
    def __init__(self, vocab=64, dim=32, heads=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.positions = SinusoidalPositions(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.ctc = nn.Linear(dim, vocab + 1)

    def forward(self, ids):
        x = self.emb(ids) + self.positions(ids.size(1))
        y = self.norm(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return self.ctc(x).log_softmax(-1)


with torch.random.fork_rng():
    torch.manual_seed(505)
    model = TranscriptEncoder().eval()
inputs = (torch.randint(0, 64, (1, 900), generator=torch.Generator().manual_seed(505)),)
