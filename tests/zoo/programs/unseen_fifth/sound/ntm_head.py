"""Content addressing of a neural Turing machine: cosine similarity, sharpened by beta."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ReadHead(nn.Module):
    def __init__(self, ctrl, m):
        super().__init__()
        self.fc = nn.Linear(ctrl, m + 2)
        self.m = m

    def address(self, key, beta, gamma, memory):
        w = F.softmax(beta * F.cosine_similarity(memory, key.unsqueeze(1), dim=-1), dim=1)
        w = w ** gamma
        return w / (w.sum(1, keepdim=True) + 1e-16)

    def forward(self, h, memory):
        k, b, g = torch.split(self.fc(h), [self.m, 1, 1], dim=1)
        w = self.address(torch.tanh(k), F.softplus(b), 1 + F.softplus(g), memory)
        return torch.matmul(w.unsqueeze(1), memory).squeeze(1), w


class NTM(nn.Module):
    def __init__(self, inp=5, ctrl=18, n=9, m=7):
        super().__init__()
        self.cell = nn.LSTMCell(inp + m, ctrl)
        self.read = ReadHead(ctrl, m)
        self.add, self.erase = nn.Linear(ctrl, m), nn.Linear(ctrl, m)
        self.memory = nn.Parameter(torch.randn(n, m) * 0.3)
        self.out = nn.Linear(ctrl + m, inp)
        self.ctrl, self.m = ctrl, m

    def forward(self, x):
        B, T, _ = x.shape
        mem = self.memory.expand(B, -1, -1)
        h = c = x.new_zeros(B, self.ctrl)
        r = x.new_zeros(B, self.m)
        ys = []
        for t in range(T):
            h, c = self.cell(torch.cat([x[:, t], r], 1), (h, c))
            r, w = self.read(h, mem)
            mem = mem * (1 - w[..., None] * torch.sigmoid(self.erase(h))[:, None]) + w[..., None] * self.add(h)[:, None]
            ys.append(self.out(torch.cat([h, r], 1)))
        return torch.stack(ys, 1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(61)
        return NTM().eval()


inputs = (torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(62)),)
