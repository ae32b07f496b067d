"""Llama-3 like decoder with a params.json style config."""
import json
from types import SimpleNamespace
import torch
import torch.nn.functional as F
from torch import nn

PARAMS = json.loads('{"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 144, '
                    '"norm_eps": 1e-05, "rope_theta": 500000.0, "max_seq_len": 96}')


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    return torch.polar(torch.ones(end, dim // 2), torch.outer(torch.arange(end).float(), freqs))


def apply_rotary_emb(x, freqs_cis):
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, :, None, :]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.nh, self.nkv, self.hd = p.n_heads, p.n_kv_heads, p.dim // p.n_heads
        self.wq = nn.Linear(p.dim, self.nh * self.hd, bias=False)
        self.wk = nn.Linear(p.dim, self.nkv * self.hd, bias=False)
        self.wv = nn.Linear(p.dim, self.nkv * self.hd, bias=False)
        self.wo = nn.Linear(self.nh * self.hd, p.dim, bias=False)

    def forward(self, x, freqs_cis):
        B, T, _ = x.shape
        q = apply_rotary_emb(self.wq(x).view(B, T, self.nh, self.hd), freqs_cis).transpose(1, 2)
        k = apply_rotary_emb(self.wk(x).view(B, T, self.nkv, self.hd), freqs_cis)
        v = self.wv(x).view(B, T, self.nkv, self.hd)
        k, v = (t.repeat_interleave(self.nh // self.nkv, dim=2).transpose(1, 2) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1))


class Transformer(nn.Module):
    def __init__(self, params):
        super().__init__()
        self.params = self.config = params
        self.tok_embeddings = nn.Embedding(params.vocab_size, params.dim)
        self.layers = nn.ModuleList([Attention(params) for _ in range(params.n_layers)])
        self.attn_norms = nn.ModuleList([nn.RMSNorm(params.dim, params.norm_eps) for _ in range(params.n_layers)])
        self.norm = nn.RMSNorm(params.dim, params.norm_eps)
        self.output = nn.Linear(params.dim, params.vocab_size, bias=False)
        self.freqs_cis = precompute_freqs_cis(params.dim // params.n_heads, params.max_seq_len * 2)  # fault: AS306

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        f = self.freqs_cis.to(h.device)[: tokens.shape[1]]
        for n, l in zip(self.attn_norms, self.layers):
            h = h + l(n(h), f)
        return self.output(self.norm(h)).float()


torch.manual_seed(81)
model = Transformer(SimpleNamespace(**PARAMS)).eval()
inputs = {"tokens": torch.randint(0, 144, (2, 17), generator=torch.Generator().manual_seed(81))}
