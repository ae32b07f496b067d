"""Speech from text: predicted durations are rounded up, and say which frame reads which token."""
import torch
import torch.nn.functional as F
from torch import nn


class TextToSpeech(nn.Module):
    def __init__(self, vocab=40, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(64, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.duration = nn.Sequential(nn.Conv1d(width, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 1, 1))
        self.prior = nn.Linear(width, width)
        self.decoder = nn.Conv1d(width, 1, 3, padding=1)

    def forward(self, input_ids):
        b, n = input_ids.shape
        x = self.embed(input_ids) + self.pos(torch.arange(n))
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        log_duration = self.duration(x.transpose(1, 2))
        duration = torch.ceil(torch.exp(log_duration) + 0.5)
        ends = duration.cumsum(-1).transpose(1, 2)
        frames = torch.arange(int(ends.max()))[None, None]
        path = (frames < ends).float()
        path = path - F.pad(path, (0, 0, 1, 0))[:, :-1]
        stretched = torch.matmul(path.transpose(1, 2), self.prior(x))
        waveform = torch.tanh(self.decoder(stretched.transpose(1, 2)))
        return waveform.squeeze(1), log_duration


def model():
    torch.manual_seed(10)
    return TextToSpeech().eval()


inputs = torch.randint(0, 40, (2, 9), generator=torch.Generator().manual_seed(11))
