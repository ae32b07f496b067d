"""Listen-attend-spell speller with additive attention, time-major as in the tutorial."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, hidden_size):
        super(Attention, self).__init__()
        self.hidden_size = hidden_size
        self.attn = nn.Linear(self.hidden_size * 2, hidden_size)
        self.v = nn.Parameter(torch.rand(hidden_size) * 0.2)

    def forward(self, hidden, encoder_outputs):
        # hidden (B, H), encoder_outputs (T, B, H)
        timestep = encoder_outputs.size(0)
        h = hidden.repeat(timestep, 1, 1)
        energy = torch.tanh(self.attn(torch.cat([h, encoder_outputs], 2)))
        attn_energies = energy @ self.v                                  # (T, B)
        return F.softmax(attn_energies, dim=0).t().unsqueeze(1)


class Speller(nn.Module):
    def __init__(self, vocab=12, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.attention = Attention(hidden)
        self.gru = nn.GRUCell(hidden * 2, hidden)
        self.out = nn.Linear(hidden * 2, vocab)

    def forward(self, tokens, encoder_outputs):
        hidden = encoder_outputs.mean(0)
        logits = []
        for t in range(tokens.size(1)):
            weights = self.attention(hidden, encoder_outputs)
            context = weights.bmm(encoder_outputs.transpose(0, 1)).squeeze(1)
            hidden = self.gru(torch.cat([self.embed(tokens[:, t]), context], 1), hidden)
            logits.append(self.out(torch.cat([hidden, context], 1)))
        return torch.stack(logits, 1)


class LAS(nn.Module):
    def __init__(self, mels=10, hidden=24):
        super().__init__()
        self.listener = nn.GRU(mels, hidden)
        self.speller = Speller(hidden=hidden)

    def forward(self, mel, tokens):
        enc, _ = self.listener(mel.transpose(0, 1))
        return self.speller(tokens, enc)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(26)
        return LAS().eval()


def inputs():
    g = torch.Generator().manual_seed(27)
    return torch.randn(3, 9, 10, generator=g), torch.randint(0, 12, (3, 4), generator=g)
