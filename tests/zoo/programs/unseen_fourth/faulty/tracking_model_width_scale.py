"""Multi-object tracker: detections attend to tracks."""
import torch
import torch.nn as nn


class Assoc(nn.Module):
    def __init__(self, d_model=64, n_head=8):
        super().__init__()
        self.d_model, self.n_head = d_model, n_head
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, det, trk):
        b, n, d = det.shape
        m = trk.size(1)
        q = self.q(det).view(b, n, self.n_head, -1).permute(0, 2, 1, 3)
        k = self.k(trk).view(b, m, self.n_head, -1).permute(0, 2, 3, 1)
        v = self.v(trk).view(b, m, self.n_head, -1).permute(0, 2, 1, 3)
        aff = q.matmul(k).div(self.d_model ** 0.5)  # fault: AS301
        return det + self.o(aff.softmax(3).matmul(v).permute(0, 2, 1, 3).flatten(2))


class Tracker(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.box = nn.Sequential(nn.Linear(5, d), nn.ReLU(), nn.Linear(d, d))
        self.assoc = Assoc(d)
        self.fin = nn.Linear(d, d)

    def forward(self, detections, tracks):
        t = self.box(tracks)
        return self.fin(self.assoc(self.box(detections), t)) @ t.mT


torch.manual_seed(4)
model = Tracker().eval()
_g = torch.Generator().manual_seed(4)
inputs = (torch.randn(2, 6, 5, generator=_g) * 3, torch.randn(2, 9, 5, generator=_g) * 3)
expect = {"scale": 8 ** -0.5}
# note: AS501
