"""Point cloud classifier: clouds of one batch, multi-head self-attention in functional form."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SA(nn.Module):
    def __init__(self, channels, heads=4):
        super().__init__()
        self.heads = heads
        self.q_conv = nn.Conv1d(channels, channels, 1, bias=False)
        self.k_conv = nn.Conv1d(channels, channels, 1, bias=False)
        self.v_conv = nn.Conv1d(channels, channels, 1)
        self.trans = nn.Conv1d(channels, channels, 1)
        self.after = nn.BatchNorm1d(channels)

    def forward(self, x):  # b c n
        b, c, n = x.shape
        h, d = self.heads, c // self.heads
        q = self.q_conv(x).permute(0, 2, 1).reshape(b * n, h, d).transpose(0, 1)  # fault: AS102
        k = self.k_conv(x).permute(0, 2, 1).reshape(b * n, h, d).transpose(0, 1)  # fault: AS102
        v = self.v_conv(x).permute(0, 2, 1).reshape(b * n, h, d).transpose(0, 1)  # fault: AS102
        a = F.softmax(torch.bmm(q, k.transpose(1, 2)) / d**0.5, dim=-1)  # fault: AS102
        y = torch.bmm(a, v)
        y = y.transpose(0, 1).reshape(b, n, c).transpose(1, 2)
        return x + F.relu(self.after(self.trans(y)))


class PCT(nn.Module):
    def __init__(self, classes=8, ch=32):
        super().__init__()
        self.conv = nn.Conv1d(3, ch, 1)
        self.sa1, self.sa2 = SA(ch), SA(ch)
        self.fc = nn.Linear(2 * ch, classes)

    def forward(self, pts):
        x = F.relu(self.conv(pts.transpose(1, 2)))
        x1 = self.sa1(x)
        x2 = self.sa2(x1)
        return self.fc(torch.cat([x1, x2], 1).amax(-1))


# also: AS103
with torch.random.fork_rng():
    torch.manual_seed(27)
    model = PCT().eval()
inputs = torch.rand(3, 30, 3, generator=torch.Generator().manual_seed(27))
