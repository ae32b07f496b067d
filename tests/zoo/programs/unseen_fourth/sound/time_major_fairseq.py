"""Speech encoder that keeps everything time first, as fairseq does."""
import torch
import torch.nn as nn


class TimeFirstAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.hd = heads, dim // heads
        self.scaling = self.hd ** -0.5
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = [nn.Linear(dim, dim) for _ in range(4)]

    def forward(self, x, key_padding_mask):
        T, B, C = x.shape
        q = (self.q_proj(x) * self.scaling).contiguous().view(T, B * self.h, self.hd).transpose(0, 1)
        k = self.k_proj(x).contiguous().view(T, B * self.h, self.hd).transpose(0, 1)
        v = self.v_proj(x).contiguous().view(T, B * self.h, self.hd).transpose(0, 1)
        w = torch.bmm(q, k.transpose(1, 2)).view(B, self.h, T, T)
        w = w.masked_fill(key_padding_mask[:, None, None, :], float("-inf")).view(B * self.h, T, T)
        y = torch.bmm(w.softmax(-1), v).transpose(0, 1).contiguous().view(T, B, C)
        return self.out_proj(y)


class SpeechEnc(nn.Module):
    def __init__(self, feat=14, dim=32):
        super().__init__()
        self.inp = nn.Linear(feat, dim)
        self.pos_conv = nn.Conv1d(dim, dim, 5, padding=2, groups=4)
        self.layers = nn.ModuleList([TimeFirstAttention(dim, 4) for _ in range(2)])
        self.norm = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2)])

    def forward(self, source, padding_mask):
        x = self.inp(source).masked_fill(padding_mask[..., None], 0)
        x = x + self.pos_conv(x.transpose(1, 2)).transpose(1, 2)
        x = x.transpose(0, 1)
        for l, n in zip(self.layers, self.norm):
            x = n(x + l(x, padding_mask))
        return x.transpose(0, 1)


torch.manual_seed(2)
model = SpeechEnc().eval()
_pm = torch.arange(16)[None] >= torch.tensor([16, 10, 13])[:, None]
inputs = {"source": torch.randn(3, 16, 14, generator=torch.Generator().manual_seed(2)) * ~_pm[..., None], "padding_mask": _pm}
expect = {"padding": "padding_mask drop"}
