"""Trainable decoder step with alignments for the loss on attention."""
import torch
import torch.nn as nn


class GuidedAttention(nn.Module):
    def __init__(self, d_mel=20, d_txt=24, d=32):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d_mel, d), nn.Linear(d_txt, d), nn.Linear(d_txt, d)
        self.drop = nn.Dropout(0.2)
        self.o = nn.Linear(d, d_mel)

    def forward(self, mel, text):
        q, k, v = self.q(mel), self.k(text), self.v(text)
        attn = torch.softmax(q @ k.transpose(1, 2) / q.size(-1) ** 0.5, -1)
        attn = self.drop(attn)  # fault: AS803
        return mel + self.o(attn @ v), attn  # fault: AS803


class MelDecoder(nn.Module):
    def __init__(self, n_txt=40, d_txt=24, d_mel=20):
        super().__init__()
        self.txt = nn.Embedding(n_txt, d_txt)
        self.tpos, self.mpos = nn.Embedding(50, d_txt), nn.Embedding(80, d_mel)
        self.att = GuidedAttention(d_mel, d_txt)
        self.post = nn.Linear(d_mel, d_mel)

    def forward(self, mel, text):
        t = self.txt(text) + self.tpos.weight[:text.size(1)]
        y, alignments = self.att(mel + self.mpos.weight[:mel.size(1)], t)
        return self.post(y), alignments


def model():
    torch.manual_seed(17)
    return MelDecoder().train()


_g = torch.Generator().manual_seed(17)
inputs = {"mel": torch.randn(2, 22, 20, generator=_g), "text": torch.randint(0, 40, (2, 9), generator=_g)}
