"""Point cloud transformer: offset attention with the double normalisation of the paper (softmax, then L1 over the other axis)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class OffsetAttention(nn.Module):
    def __init__(self, channels=32):
        super().__init__()
        self.q_conv, self.k_conv = nn.Conv1d(channels, channels // 4, 1, bias=False), nn.Conv1d(channels, channels // 4, 1, bias=False)
        self.q_conv.weight = self.k_conv.weight
        self.v_conv, self.trans_conv = nn.Conv1d(channels, channels, 1), nn.Conv1d(channels, channels, 1)
        self.after_norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        x_q = self.q_conv(x).permute(0, 2, 1)
        x_k = self.k_conv(x)
        x_v = self.v_conv(x)
        attention = torch.softmax(torch.bmm(x_q, x_k), dim=-1)
        attention = attention / (1e-9 + attention.sum(dim=1, keepdim=True))
        x_r = torch.bmm(x_v, attention)
        return x + F.relu(self.after_norm(self.trans_conv(x - x_r)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.sa, self.fc = nn.Conv1d(3, 32, 1), OffsetAttention(), nn.Linear(32, 5)

    def forward(self, pts):
        return self.fc(self.sa(F.relu(self.conv(pts.mT))).amax(-1))


with torch.random.fork_rng():
    torch.manual_seed(40)
    model = Net().eval()
inputs = torch.rand(2, 24, 3, generator=torch.Generator().manual_seed(40))
