"""Conformer-ish CTC acoustic encoder with key masking by frame counts."""
import math
import torch
from torch import nn


def frames_mask(n_frames, total):
    grid = torch.arange(total, device=n_frames.device)
    return grid[None, :] <= n_frames[:, None]  # fault: AS202


class SelfAtt(nn.Module):
    def __init__(self, width=48, heads=4):
        super().__init__()
        self.heads, self.dk = heads, width // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, keep):
        B, T, W = x.shape
        q, k, v = (w(x).view(B, T, self.heads, self.dk).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.dk)
        s = s.masked_fill(~keep[:, None, None, :], torch.finfo(s.dtype).min)
        y = torch.matmul(s.softmax(-1), v)
        return self.wo(y.transpose(1, 2).reshape(B, T, W))


class AcousticEncoder(nn.Module):
    def __init__(self, n_mels=20, width=48, vocab=31, depth=2):
        super().__init__()
        self.inp = nn.Linear(n_mels, width)
        self.att = nn.ModuleList([SelfAtt(width) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.ctc = nn.Linear(width, vocab)

    def forward(self, fbank, fbank_len):
        x = self.inp(fbank)
        keep = frames_mask(fbank_len, x.size(1))
        for a, n in zip(self.att, self.ln):
            x = x + a(n(x), keep)
        return self.ctc(x).log_softmax(-1)


def model():
    torch.manual_seed(11)
    return AcousticEncoder().eval()


inputs = dict(fbank=torch.randn(3, 17, 20, generator=torch.Generator().manual_seed(1)), fbank_len=torch.tensor([17, 9, 12]))
expect = {"padding": "fbank_len lengths"}
