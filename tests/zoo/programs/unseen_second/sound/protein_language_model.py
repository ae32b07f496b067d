"""Masked protein language model (ESM-like), rotary positions, padded batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = ["<pad>", "<cls>", "<eos>", "<mask>"] + list("LAGVSERTIDPKQNFYMHWC")


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq)

    def forward(self, q, k):
        t = torch.arange(k.shape[-2], device=k.device).type_as(self.inv_freq)
        freqs = torch.outer(t, self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos(), emb.sin()
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class EsmLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.num_heads = heads
        self.head_dim = dim // heads
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.rot_emb = RotaryEmbedding(self.head_dim)
        self.norm_a, self.norm_f = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def heads(self, t):
        return t.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, padding_mask):
        h = self.norm_a(x)
        q = self.heads(self.q_proj(h)) * self.head_dim**-0.5
        k, v = self.heads(self.k_proj(h)), self.heads(self.v_proj(h))
        q, k = self.rot_emb(q, k)
        attn = q @ k.transpose(2, 3)
        attn = attn.masked_fill(padding_mask[:, None, None, :], float("-inf"))
        attn = F.softmax(attn, dim=-1, dtype=torch.float32).type_as(attn)
        x = x + self.out_proj((attn @ v).transpose(1, 2).flatten(2))
        return x + self.fc2(F.gelu(self.fc1(self.norm_f(x))))


class ProteinLM(nn.Module):
    def __init__(self, dim=40, heads=5, layers=2):
        super().__init__()
        self.embed_tokens = nn.Embedding(len(ALPHABET), dim, padding_idx=0)
        self.layers = nn.ModuleList([EsmLayer(dim, heads) for _ in range(layers)])
        self.emb_layer_norm_after = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, len(ALPHABET))

    def forward(self, tokens):
        padding_mask = tokens.eq(0)
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, padding_mask)
        return self.lm_head(self.emb_layer_norm_after(x))


SEQS = ["MKTAYIAKQR", "GAVLIPFMWS", "MNQ", "ACDEFGHIKLMNPQ", "WYTSR"]
torch.manual_seed(13)
model = ProteinLM().eval()
tokens = torch.zeros(len(SEQS), 16, dtype=torch.long)
for row, seq in enumerate(SEQS):
    ids = [1] + [ALPHABET.index(letter) for letter in seq] + [2]
    tokens[row, : len(ids)] = torch.tensor(ids)
inputs = {"tokens": tokens}
expect = {"causal": False, "padding": "tokens pad=0"}
