"""Conformer encoder: relative positions with rel-shift, masked convolution, batch norm, lengths per clip."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def relative_sinusoids(n, d, device):
    pos = torch.arange(n - 1, -n, -1.0, device=device)[:, None]
    div = torch.exp(torch.arange(0, d, 2, device=device) * -(math.log(10000.0) / d))
    out = torch.zeros(2 * n - 1, d, device=device)
    out[:, 0::2], out[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
    return out


class RelPositionMHA(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.d_k = h, d // h
        self.linear_q, self.linear_k, self.linear_v, self.linear_out = (nn.Linear(d, d) for _ in range(4))
        self.linear_pos = nn.Linear(d, d, bias=False)
        self.pos_bias_u, self.pos_bias_v = nn.Parameter(torch.empty(h, self.d_k)), nn.Parameter(torch.empty(h, self.d_k))
        nn.init.xavier_uniform_(self.pos_bias_u)
        nn.init.xavier_uniform_(self.pos_bias_v)

    def rel_shift(self, x):
        b, h, n, m = x.shape
        x = torch.cat([x.new_zeros(b, h, n, 1), x], dim=-1).view(b, h, m + 1, n)
        return x[:, :, 1:].view(b, h, n, m)[..., :n]

    def forward(self, x, pos_emb, mask):
        b, n, _ = x.shape
        q = self.linear_q(x).view(b, n, self.h, self.d_k)
        k = self.linear_k(x).view(b, n, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(b, n, self.h, self.d_k).transpose(1, 2)
        p = self.linear_pos(pos_emb).view(-1, self.h, self.d_k).transpose(0, 1)
        ac = (q + self.pos_bias_u).transpose(1, 2) @ k.transpose(-2, -1)
        bd = self.rel_shift((q + self.pos_bias_v).transpose(1, 2) @ p.transpose(-2, -1))
        scores = (ac + bd) / math.sqrt(self.d_k)
        scores = scores.masked_fill(~mask[:, None, None, :], torch.finfo(scores.dtype).min)
        attn = torch.softmax(scores, dim=-1).masked_fill(~mask[:, None, None, :], 0.0)
        return self.linear_out((attn @ v).transpose(1, 2).reshape(b, n, -1))


class ConvModule(nn.Module):
    def __init__(self, d, kernel=5):
        super().__init__()
        self.pw1, self.pw2 = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 1)
        self.dw = nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d)
        self.bn = nn.BatchNorm1d(d)

    def forward(self, x, mask):
        x = F.glu(self.pw1(x.transpose(1, 2)), dim=1)
        x = x.masked_fill(~mask[:, None, :], 0.0)
        return self.pw2(F.silu(self.bn(self.dw(x)))).transpose(1, 2)


class ConformerBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ff1 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))
        self.ff2 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))
        self.norm_mha, self.norm_conv, self.norm_out = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mha, self.conv = RelPositionMHA(d, h), ConvModule(d)

    def forward(self, x, pos, mask):
        x = x + 0.5 * self.ff1(x)
        x = x + self.mha(self.norm_mha(x), pos, mask)
        x = x + self.conv(self.norm_conv(x), mask)
        return self.norm_out(x + 0.5 * self.ff2(x))


class ConformerEncoder(nn.Module):
    def __init__(self, n_mels=20, d=36, h=3, layers=2, vocab=29):
        super().__init__()
        self.embed = nn.Linear(n_mels, d)
        self.blocks = nn.ModuleList(ConformerBlock(d, h) for _ in range(layers))
        self.ctc = nn.Linear(d, vocab)

    def forward(self, feats, feat_lengths):
        n = feats.shape[1]
        mask = torch.arange(n, device=feats.device)[None] < feat_lengths[:, None]
        x = self.embed(feats)
        pos = relative_sinusoids(n, x.shape[-1], x.device)
        for block in self.blocks:
            x = block(x, pos, mask)
        return self.ctc(x).log_softmax(-1)


with torch.random.fork_rng():
    torch.manual_seed(86)
    model = ConformerEncoder().eval()

inputs = {
    "feats": torch.randn(3, 17, 20, generator=torch.Generator().manual_seed(87)),
    "feat_lengths": torch.tensor([17, 13, 8]),
}
expect = {"padding": "feat_lengths lengths"}
