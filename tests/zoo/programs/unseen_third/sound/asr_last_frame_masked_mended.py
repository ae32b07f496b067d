"""Speaker verification: self-attentive encoder over padded utterances with lengths."""
import torch
import torch.nn as nn


class SpeakerNet(nn.Module):
    def __init__(self, feats=16, d=32, h=4, spk=9):
        super().__init__()
        self.h = h
        self.inp, self.pos = nn.Linear(feats, d), nn.Embedding(80, d)
        self.qkv, self.o, self.ln, self.spk = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d), nn.Linear(d, spk)

    def pad_mask(self, lens, T):
        r = torch.arange(T, device=lens.device).unsqueeze(0)
        return r >= lens.unsqueeze(1)

    def forward(self, feats, lens):
        B, T, _ = feats.shape
        pad = self.pad_mask(lens, T)
        x = self.inp(feats) + self.pos(torch.arange(T))
        q, k, v = self.qkv(self.ln(x)).view(B, T, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        e = q @ k.mT / q.size(-1) ** 0.5
        e = e.masked_fill(pad[:, None, None, :], -1e30)
        x = x + self.o((e.softmax(-1) @ v).transpose(1, 2).flatten(2))
        w = (torch.arange(T)[None] < lens[:, None]).unsqueeze(-1)
        return self.spk((x * w).sum(1) / lens[:, None])


with torch.random.fork_rng():
    torch.manual_seed(117)
    model = SpeakerNet().eval()
inputs = {"feats": torch.randn(3, 21, 16, generator=torch.Generator().manual_seed(117)), "lens": torch.tensor([21, 12, 16])}
expect = {"padding": "lens lengths"}
