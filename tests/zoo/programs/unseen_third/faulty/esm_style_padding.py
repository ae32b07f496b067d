"""Protein language model, ESM flavoured: rotary attention over residues, <pad> has index 1."""
import torch
import torch.nn as nn

VOCAB, PAD = 33, 1


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim)))

    def forward(self, q, k):
        t = torch.arange(q.shape[-2], device=q.device).type_as(self.inv_freq)
        freqs = torch.outer(t, self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos(), emb.sin()
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class Attention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.rot_emb = RotaryEmbedding(self.head_dim)

    def forward(self, x, key_padding_mask=None):
        tgt_len, bsz, embed_dim = x.size()
        q = self.q_proj(x) * self.head_dim**-0.5
        shape = lambda t: t.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        q, k, v = shape(q), shape(self.k_proj(x)), shape(self.v_proj(x))
        q, k = self.rot_emb(q, k)
        w = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            w = w.view(bsz, self.num_heads, tgt_len, tgt_len)
            w = w.masked_fill(~key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf"))  # fault: AS205
            w = w.view(bsz * self.num_heads, tgt_len, tgt_len)
        w = torch.softmax(w, dim=-1, dtype=torch.float32).type_as(w)
        attn = torch.bmm(w, v).transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(attn)


class ProteinLM(nn.Module):
    def __init__(self, dim=40, heads=5, layers=2):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.attns = nn.ModuleList(Attention(dim, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.lm_head = nn.Linear(dim, VOCAB)

    def forward(self, tokens):
        padding_mask = tokens.eq(PAD)
        x = self.embed_tokens(tokens).transpose(0, 1)
        for a, n in zip(self.attns, self.norms):
            x = x + a(n(x), key_padding_mask=padding_mask)
        return self.lm_head(x.transpose(0, 1))


def _tokens():
    t = torch.randint(4, 24, (3, 17), generator=torch.Generator().manual_seed(1))
    t[0, 12:] = PAD
    t[1, 15:] = PAD
    t[2, 16:] = PAD
    return t


# also: AS202 AS212
with torch.random.fork_rng():
    torch.manual_seed(0)
    model = ProteinLM().eval()
inputs = {"tokens": _tokens()}
expect = {"padding": "tokens pad=1"}
