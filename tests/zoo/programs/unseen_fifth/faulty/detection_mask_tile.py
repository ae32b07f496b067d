"""Set detector on proposals; sample masks folded for heads, nn.MultiheadAttention layout."""
import torch
import torch.nn as nn


class ProposalAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.in_q, self.in_k, self.in_v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Linear(d, d)

    def fold(self, x):
        B, N, d = x.shape
        return x.reshape(B, N, self.heads, d // self.heads).permute(0, 2, 1, 3).reshape(B * self.heads, N, -1)

    def forward(self, x, valid):
        B, N, d = x.shape
        q, k, v = self.fold(self.in_q(x)), self.fold(self.in_k(x)), self.fold(self.in_v(x))
        scores = torch.bmm(q, k.transpose(1, 2)) * (d // self.heads) ** -0.5
        m = valid.unsqueeze(1).expand(B, N, N).repeat(self.heads, 1, 1)  # fault: AS211
        scores = scores.masked_fill(~m, -1e4)  # fault: AS211
        y = torch.bmm(scores.softmax(-1), v)
        y = y.reshape(B, self.heads, N, -1).permute(0, 2, 1, 3).reshape(B, N, d)
        return self.out(y)


class ProposalHead(nn.Module):
    def __init__(self, roi=18, d=32, heads=4, classes=5):
        super().__init__()
        self.roi = nn.Linear(roi, d)
        self.box = nn.Linear(4, d)
        self.att = ProposalAttention(d, heads)
        self.norm = nn.LayerNorm(d)
        self.cls = nn.Linear(d, classes)

    def forward(self, feats, boxes, valid):
        x = self.roi(feats) + self.box(boxes)
        return self.cls(self.norm(x + self.att(x, valid)))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(47)
        return ProposalHead().eval()


def inputs():
    g = torch.Generator().manual_seed(50)
    n = torch.tensor([9, 4, 6])
    return {"feats": torch.randn(3, 9, 18, generator=g), "boxes": torch.rand(3, 9, 4, generator=g),
            "valid": torch.arange(9)[None] < n[:, None]}


expect = {"padding": "valid keep"}
# also: AS202
