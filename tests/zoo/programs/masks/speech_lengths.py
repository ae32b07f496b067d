"""Acoustic encoder over filterbank frames with a length mask."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def sequence_mask(lengths, max_len):
    return torch.arange(max_len, device=lengths.device)[None, :] < lengths[:, None]


class EncoderBlock(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm_att = nn.LayerNorm(size)
        self.linear_q = nn.Linear(size, size)
        self.linear_k = nn.Linear(size, size)
        self.linear_v = nn.Linear(size, size)
        self.linear_out = nn.Linear(size, size)
        self.norm_ff = nn.LayerNorm(size)
        self.w_1 = nn.Linear(size, size * 2)
        self.w_2 = nn.Linear(size * 2, size)

    def forward(self, xs, mask):
        b, t, c = xs.shape
        y = self.norm_att(xs)
        q, k, v = (
            lin(y).view(b, t, self.heads, -1).transpose(1, 2)
            for lin in (self.linear_q, self.linear_k, self.linear_v)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        xs = xs + self.linear_out(y.transpose(1, 2).reshape(b, t, c))
        return xs + self.w_2(F.silu(self.w_1(self.norm_ff(xs))))


class AcousticEncoder(nn.Module):
    def __init__(self, n_mels=20, size=32, heads=4, blocks=2, vocab=12):
        super().__init__()
        self.embed = nn.Linear(n_mels, size)
        self.pos = nn.Parameter(torch.randn(1, 64, size) * 0.05)
        self.encoders = nn.ModuleList(EncoderBlock(size, heads) for _ in range(blocks))
        self.after_norm = nn.LayerNorm(size)
        self.ctc = nn.Linear(size, vocab)

    def forward(self, feats, feats_lengths):
        mask = sequence_mask(feats_lengths, feats.size(1))
        xs = self.embed(feats) + self.pos[:, : feats.size(1)]
        for layer in self.encoders:
            xs = layer(xs, mask)
        return self.ctc(self.after_norm(xs)).log_softmax(-1)


with torch.random.fork_rng():
    torch.manual_seed(99)
    model = AcousticEncoder().eval()

inputs = {
    "feats": torch.randn(3, 18, 20, generator=torch.Generator().manual_seed(5)),
    "feats_lengths": torch.tensor([18, 11, 14]),
}
expect = {"padding": "feats_lengths lengths"}
