"""Set Transformer MAB, heads folded in the batch."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=True):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q, self.fc_k, self.fc_v = nn.Linear(dim_Q, dim_V), nn.Linear(dim_K, dim_V), nn.Linear(dim_K, dim_V)
        self.ln0, self.ln1 = (nn.LayerNorm(dim_V), nn.LayerNorm(dim_V)) if ln else (nn.Identity(), nn.Identity())
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        ds = self.dim_V // self.num_heads
        Q_, K_, V_ = (torch.cat(z.split(ds, 2), 0) for z in (Q, K, V))
        A = F.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(ds), 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        return self.ln1(O + F.relu(self.fc_o(O)))


class SetNet(nn.Module):
    def __init__(self, din=2, dh=24, heads=4):
        super().__init__()
        self.sab1, self.sab2 = MAB(din, din, dh, heads), MAB(dh, dh, dh, heads)
        self.seed = nn.Parameter(torch.randn(1, 3, dh))
        self.pma = MAB(dh, dh, dh, heads)
        self.dec = nn.Linear(dh, 4)

    def forward(self, X):
        X = self.sab1(X, X)
        X = self.sab2(X, X)
        return self.dec(self.pma(self.seed.repeat(X.size(0), 1, 1), X))


torch.manual_seed(61)
model = SetNet().eval()
inputs = (torch.randn(3, 14, 2, generator=torch.Generator().manual_seed(2)),)
# note: AS501
