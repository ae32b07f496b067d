"""Conformer block for keyword spotting on mel frames."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MHSA(nn.Module):
    def __init__(self, d, heads, p=0.1):
        super().__init__()
        self.heads, self.d_k = heads, d // heads
        self.ln = nn.LayerNorm(d)
        self.lq, self.lk, self.lv, self.lo = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.p = nn.Dropout(p)

    def forward(self, x):
        x = self.ln(x)
        bs, t, d = x.shape
        q = self.lq(x).view(bs, self.heads, t, self.d_k)  # fault: AS103
        k = self.lk(x).view(bs, self.heads, t, self.d_k)  # fault: AS103
        v = self.lv(x).view(bs, self.heads, t, self.d_k)  # fault: AS103
        s = torch.matmul(q, k.transpose(-1, -2)) / self.d_k ** .5
        ctx = torch.matmul(self.p(F.softmax(s, -1)), v)
        return self.lo(ctx.view(bs, t, d))


class ConvModule(nn.Module):
    def __init__(self, d, kernel=5):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.pw1 = nn.Conv1d(d, 2 * d, 1)
        self.dw = nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d)
        self.bn = nn.BatchNorm1d(d)
        self.pw2 = nn.Conv1d(d, d, 1)

    def forward(self, x):
        y = F.glu(self.pw1(self.ln(x).transpose(1, 2)), 1)
        return self.pw2(F.silu(self.bn(self.dw(y)))).transpose(1, 2)


class KWS(nn.Module):
    def __init__(self, mels=20, d=32, heads=4, words=8):
        super().__init__()
        self.proj = nn.Linear(mels, d)
        self.ff1 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))
        self.mhsa = MHSA(d, heads)
        self.conv = ConvModule(d)
        self.ff2 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))
        self.ln = nn.LayerNorm(d)
        self.cls = nn.Linear(d, words)

    def forward(self, mel):
        x = self.proj(mel)
        x = x + 0.5 * self.ff1(x)
        x = x + self.mhsa(x)
        x = x + self.conv(x)
        x = x + 0.5 * self.ff2(x)
        return self.cls(self.ln(x).mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(48)
        return KWS().eval()


inputs = torch.randn(3, 17, 20, generator=torch.Generator().manual_seed(49))
