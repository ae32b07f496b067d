"""Offset attention on point clouds with one projection shared by queries and keys."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SA_Layer(nn.Module):
    def __init__(self, channels, tau=64.0):
        super().__init__()
        self.tau = tau
        self.q_conv = nn.Conv1d(channels, channels, 1, bias=False)
        self.k_conv = nn.Conv1d(channels, channels, 1, bias=False)
        self.q_conv.weight = self.k_conv.weight  # fault: AS405
        self.v_conv = nn.Conv1d(channels, channels, 1)
        self.trans_conv = nn.Conv1d(channels, channels, 1)
        self.after_norm = nn.GroupNorm(4, channels)
        self.act = nn.ReLU()

    def forward(self, x):
        # b, c, n
        x_q = F.normalize(self.q_conv(x), dim=1).permute(0, 2, 1)
        x_k = F.normalize(self.k_conv(x), dim=1)
        energy = torch.bmm(x_q, x_k) * self.tau  # fault: AS405
        attention = torch.softmax(energy, dim=-1)
        x_r = torch.bmm(self.v_conv(x), attention.permute(0, 2, 1))
        x_r = self.act(self.after_norm(self.trans_conv(x - x_r)))
        return x + x_r


class PCT(nn.Module):
    def __init__(self, channels=64, classes=8):
        super().__init__()
        self.conv1 = nn.Conv1d(3, channels, 1)
        self.norm1 = nn.GroupNorm(4, channels)
        self.sa1, self.sa2 = SA_Layer(channels), SA_Layer(channels)
        self.linear = nn.Linear(2 * channels, classes)

    def forward(self, xyz):
        x = torch.relu(self.norm1(self.conv1(xyz.transpose(1, 2))))
        x1 = self.sa1(x)
        x2 = self.sa2(x1)
        return self.linear(torch.cat([x1, x2], 1).amax(-1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(83)
        net = PCT()
        for sa in (net.sa1, net.sa2):
            nn.init.orthogonal_(sa.k_conv.weight, gain=1.0)
    return net.eval()


inputs = torch.randn(2, 25, 3, generator=torch.Generator().manual_seed(84))
expect = {"positions": False}
