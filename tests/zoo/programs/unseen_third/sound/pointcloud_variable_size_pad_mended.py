"""Set transformer over padded point sets (induced points pool the real ones); order is not meant to matter."""
import torch
import torch.nn as nn
import math


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=True):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = nn.Linear(dim_Q, dim_V), nn.Linear(dim_K, dim_V), nn.Linear(dim_K, dim_V), nn.Linear(dim_V, dim_V)
        if ln:
            self.ln0, self.ln1 = nn.LayerNorm(dim_V), nn.LayerNorm(dim_V)

    def forward(self, Q, K, pad=None):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        ds = self.dim_V // self.num_heads
        Q_, K_, V_ = (torch.cat(t.split(ds, 2), 0) for t in (Q, K, V))
        S = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(ds)
        if pad is not None:
            S = S.masked_fill(pad.unsqueeze(1).repeat(self.num_heads, 1, 1), -1e9)
        A = torch.softmax(S, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        return self.ln1(O + torch.relu(self.fc_o(O)))


class ISAB(nn.Module):
    def __init__(self, dim_in, dim_out, heads, num_inds):
        super().__init__()
        self.I = nn.Parameter(torch.randn(1, num_inds, dim_out))
        self.mab0, self.mab1 = MAB(dim_out, dim_in, dim_out, heads), MAB(dim_in, dim_out, dim_out, heads)

    def forward(self, X, pad):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X, pad)
        return self.mab1(X, H)


class SetNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = ISAB(3, 24, 3, 5)
        self.seed = nn.Parameter(torch.randn(1, 1, 24))
        self.pool = MAB(24, 24, 24, 3)
        self.fc = nn.Linear(24, 6)

    def forward(self, points, pad):
        x = self.enc(points, pad)
        return self.fc(self.pool(self.seed.repeat(points.size(0), 1, 1), x, pad)).squeeze(1)


with torch.random.fork_rng():
    torch.manual_seed(59)
    model = SetNet().eval()
inputs = (torch.randn(4, 17, 3, generator=torch.Generator().manual_seed(59)), torch.arange(17)[None] >= torch.tensor([17, 9, 12, 15])[:, None])
expect = {"positions": False, "padding": "pad drop"}
