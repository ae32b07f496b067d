"""Text encoder with a hand typed sinusoid table."""
import torch
import torch.nn as nn


def sinusoid_table(n, d):
    table = torch.zeros(n, d)
    for pos in range(n):
        for i in range(0, d, 2):
            table[pos, i] = torch.sin(torch.tensor(pos / 10000 ** (2 * i / d)))  # fault: AS505
            table[pos, i + 1] = torch.cos(torch.tensor(pos / 10000 ** (2 * i / d)))  # fault: AS505
    return table


class Enc(nn.Module):
    def __init__(self, vocab=64, d=32, heads=4, max_len=40):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.register_buffer("positional_encoding", sinusoid_table(max_len, d))
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(d, heads, 64, 0.1, batch_first=True, norm_first=True) for _ in range(2)])
        self.cls = nn.Linear(d, 4)

    def forward(self, ids):
        x = self.emb(ids) + self.positional_encoding[: ids.shape[1]]
        for l in self.layers:
            x = l(x)
        return self.cls(x[:, 0])


torch.manual_seed(1)
model = Enc().eval()
