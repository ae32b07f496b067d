"""Recurrent decoder with additive attention over encoder states."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        # query: (batch, 1, hidden), keys: (batch, length, hidden)
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        scores = scores.squeeze(2).unsqueeze(1)  # (batch, 1, length)
        weights = F.softmax(scores, dim=-1)
        context = torch.bmm(weights, keys)
        return context, weights


class AttnDecoder(nn.Module):
    def __init__(self, vocab, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden_size)
        self.encoder = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, vocab)

    def forward(self, source, target):
        keys, hidden = self.encoder(self.embedding(source))
        outputs = []
        for t in range(target.size(1)):
            step = self.embedding(target[:, t : t + 1])
            context, _ = self.attention(hidden.permute(1, 0, 2), keys)
            output, hidden = self.gru(torch.cat((step, context), dim=2), hidden)
            outputs.append(self.out(output))
        return torch.cat(outputs, dim=1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(90)
        return AttnDecoder(vocab=33, hidden_size=26).eval()


def inputs():
    g = torch.Generator().manual_seed(91)
    return (torch.randint(0, 33, (3, 8), generator=g), torch.randint(0, 33, (3, 5), generator=g))
