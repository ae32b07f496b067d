"""Translation: a small encoder-decoder with post-norm layers."""

import math

import torch
import torch.nn as nn


class MultiHead(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads, self.size = n_heads, width // n_heads
        self.wq = nn.Linear(width, width)
        self.wk = nn.Linear(width, width)
        self.wv = nn.Linear(width, width)
        self.wo = nn.Linear(width, width)

    def forward(self, queries, keys, values, mask=None):
        b = queries.size(0)

        def heads(t):
            return t.reshape(b, -1, self.n_heads, self.size).transpose(1, 2)

        q, k, v = heads(self.wq(queries)), heads(self.wk(keys)), heads(self.wv(values))
        energy = q @ k.transpose(-1, -2) / math.sqrt(self.size)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        attention = torch.softmax(energy, dim=-1)
        out = attention @ v
        return self.wo(out.reshape(b, -1, self.n_heads * self.size)), attention  # fault: AS103


class EncoderLayer(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.attn = MultiHead(width, n_heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, src):
        src = self.norm1(src + self.attn(src, src, src)[0])
        return self.norm2(src + self.ff(src))


class DecoderLayer(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.self_attn = MultiHead(width, n_heads)
        self.enc_attn = MultiHead(width, n_heads)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, trg, memory, trg_mask):
        trg = self.norm1(trg + self.self_attn(trg, trg, trg, trg_mask)[0])
        attended, attention = self.enc_attn(trg, memory, memory)
        trg = self.norm2(trg + attended)
        return self.norm3(trg + self.ff(trg)), attention


class Seq2Seq(nn.Module):
    """Return logits (batch, trg, vocab) and the last layer's cross-attention weights, one map per head."""

    def __init__(self, src_vocab=37, trg_vocab=31, width=32, n_heads=4, layers=2):
        super().__init__()
        self.src_emb, self.src_pos = nn.Embedding(src_vocab, width), nn.Embedding(40, width)
        self.trg_emb, self.trg_pos = nn.Embedding(trg_vocab, width), nn.Embedding(40, width)
        self.encoder = nn.ModuleList(EncoderLayer(width, n_heads) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(width, n_heads) for _ in range(layers))
        self.fc_out = nn.Linear(width, trg_vocab)

    def forward(self, src, trg):
        memory = self.src_emb(src) + self.src_pos(torch.arange(src.size(1)))
        for layer in self.encoder:
            memory = layer(memory)
        t = trg.size(1)
        trg_mask = torch.tril(torch.ones(t, t, dtype=torch.bool))[None, None]
        out = self.trg_emb(trg) + self.trg_pos(torch.arange(t))
        for layer in self.decoder:
            out, attention = layer(out, memory, trg_mask)
        return self.fc_out(out), attention


def model():
    with torch.random.fork_rng():
        torch.manual_seed(17)
        return Seq2Seq().eval()


def inputs():
    g = torch.Generator().manual_seed(18)
    return {
        "src": torch.randint(0, 37, (3, 13), generator=g),
        "trg": torch.randint(0, 31, (3, 9), generator=g),
    }

# also: AS201
