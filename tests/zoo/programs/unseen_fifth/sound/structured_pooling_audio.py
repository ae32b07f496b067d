"""Self-attentive pooling (several hops) over BiLSTM states of an utterance."""
import torch
import torch.nn as nn


class StructuredSelfAttention(nn.Module):
    def __init__(self, hid, d_a=20, r=3):
        super().__init__()
        self.W_s1 = nn.Linear(hid, d_a, bias=False)
        self.W_s2 = nn.Linear(d_a, r, bias=False)

    def forward(self, H):
        a = self.W_s2(torch.tanh(self.W_s1(H)))
        a = torch.softmax(a, dim=1).permute(0, 2, 1)
        return a @ H, a


class SpeakerNet(nn.Module):
    def __init__(self, feat=12, hid=14, speakers=6):
        super().__init__()
        self.lstm = nn.LSTM(feat, hid, bidirectional=True, batch_first=True)
        self.pool = StructuredSelfAttention(2 * hid)
        self.fc = nn.Linear(3 * 2 * hid, speakers)

    def forward(self, x):
        h, _ = self.lstm(x)
        m, _ = self.pool(h)
        return self.fc(m.flatten(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(46)
        return SpeakerNet().eval()


inputs = (torch.randn(3, 16, 12, generator=torch.Generator().manual_seed(47)),)
