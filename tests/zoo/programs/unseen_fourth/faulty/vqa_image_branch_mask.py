"""Question-image co-attention for VQA, two branches."""
import torch
import torch.nn as nn


class CoAttn(nn.Module):
    def __init__(self, d=30, h=3):
        super().__init__()
        self.txt = nn.MultiheadAttention(d, h, batch_first=True)
        self.img = nn.MultiheadAttention(d, h, batch_first=True)

    def forward(self, t, v, t_pad):
        t2 = t + self.txt(t, t, t, key_padding_mask=t_pad)[0]
        v2 = v + self.img(v, t, t)[0]  # fault: AS202
        return t2, v2


class VQA(nn.Module):
    def __init__(self, vocab=60, d=30, answers=11):
        super().__init__()
        self.w = nn.Embedding(vocab, d, padding_idx=0)
        self.patch = nn.Conv2d(3, d, 4, 4)
        self.gpos = nn.Parameter(torch.zeros(1, 16, d).normal_(0, .02))
        self.co = nn.ModuleList([CoAttn(d) for _ in range(2)])
        self.cls = nn.Linear(d, answers)

    def forward(self, image, question):
        pad = question == 0
        v = self.patch(image).flatten(2).transpose(1, 2) + self.gpos
        t = self.w(question)
        for c in self.co:
            t, v = c(t, v, pad)
        return self.cls(v.mean(1) + t[:, 0])


torch.manual_seed(17)
model = VQA().eval()
_g = torch.Generator().manual_seed(17)
_q = torch.randint(1, 60, (3, 8), generator=_g)
_q[0, 5:] = 0
_q[2, 3:] = 0
inputs = {"image": torch.randn(3, 3, 16, 16, generator=_g), "question": _q}
expect = {"padding": "question pad=0", "positions": False}
# note: AS501
