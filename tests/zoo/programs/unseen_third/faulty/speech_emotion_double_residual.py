"""Speech emotion classifier, pre-norm transformer, written by hand."""
import torch
import torch.nn as nn


class SelfAttentionLayer(nn.Module):
    def __init__(self, d_model, nhead):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.mha = nn.MultiheadAttention(d_model, nhead, dropout=0.1, batch_first=True)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        y = self.norm(x)
        y, _ = self.mha(y, y, y)
        return x + self.drop(y)


class Encoder(nn.Module):
    def __init__(self, d=32, h=4, L=2):
        super().__init__()
        self.sa = nn.ModuleList([SelfAttentionLayer(d, h) for _ in range(L)])
        self.ff = nn.ModuleList([nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, d)) for _ in range(L)])

    def forward(self, x):
        for sa, ff in zip(self.sa, self.ff):
            x = x + sa(x)  # fault: AS904
            x = x + ff(x)
        return x


class SER(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(20, 32, 5, stride=2, padding=2)
        self.pos = nn.Parameter(torch.randn(32, 1) * 0.1 + torch.randn(32, 40) * 0.1)
        self.enc, self.fc = Encoder(), nn.Linear(32, 4)

    def forward(self, mfcc):
        x = self.conv(mfcc)
        x = (x + self.pos[:, : x.size(-1)]).transpose(1, 2)
        return self.fc(self.enc(x).mean(1))


with torch.random.fork_rng():
    torch.manual_seed(108)
    model = SER().eval()
inputs = torch.randn(3, 20, 36, generator=torch.Generator().manual_seed(108))
