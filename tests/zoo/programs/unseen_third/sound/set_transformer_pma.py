"""Set Transformer: SAB and pooling by attention, no order on purpose."""
# note: AS501
import torch
import torch.nn as nn


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = nn.Linear(dim_Q, dim_V), nn.Linear(dim_K, dim_V), nn.Linear(dim_K, dim_V), nn.Linear(dim_V, dim_V)

    def forward(self, Q, K):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / dim_split**0.5, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        return O + torch.relu(self.fc_o(O))


class SetModel(nn.Module):
    def __init__(self, d_in=6, d=24, h=3, seeds=2):
        super().__init__()
        self.sab = MAB(d_in, d_in, d, h)
        self.S = nn.Parameter(torch.empty(1, seeds, d))
        nn.init.xavier_uniform_(self.S)
        self.pma = MAB(d, d, d, h)
        self.out = nn.Linear(d, 4)

    def forward(self, X):
        H = self.sab(X, X)
        return self.out(self.pma(self.S.repeat(X.size(0), 1, 1), H))


torch.manual_seed(0)
model = SetModel().eval()
inputs = torch.randn(4, 9, 6, generator=torch.Generator().manual_seed(0))
