"""Kaggle notebook cell: attention pooling head over wav2vec features with a bfloat16 speed trick."""
import torch
import torch.nn as nn


class FastAttn(nn.Module):
    def __init__(self, d, nh):
        super().__init__()
        self.nh, self.hd = nh, d // nh
        self.Wq, self.Wk, self.Wv, self.Wo = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        bs, sl, d = x.shape
        q, k, v = [w(x).view(bs, sl, self.nh, self.hd).transpose(1, 2) for w in (self.Wq, self.Wk, self.Wv)]
        att = torch.einsum("bhid,bhjd->bhij", q, k) * self.hd**-0.5
        att = att.bfloat16().softmax(-1)  # fault: AS304
        o = torch.einsum("bhij,bhjd->bhid", att, v.bfloat16()).float()
        return self.Wo(o.transpose(1, 2).reshape(bs, sl, d))


class Head(nn.Module):
    def __init__(self, d=32, n=5):
        super().__init__()
        self.ln, self.att, self.fc = nn.LayerNorm(d), FastAttn(d, 4), nn.Linear(d, n)

    def forward(self, feats):
        x = feats + self.att(self.ln(feats))
        return self.fc(x.mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(44)
        m = Head()
        with torch.no_grad():  # magnitudes of the trained fold-0 weights
            m.att.Wq.weight *= 8
            m.att.Wk.weight *= 8
            m.att.Wq.bias.fill_(3.0)
            m.att.Wk.bias.fill_(8.0)
        return m.eval()


inputs = torch.randn(3, 33, 32, generator=torch.Generator().manual_seed(44))
