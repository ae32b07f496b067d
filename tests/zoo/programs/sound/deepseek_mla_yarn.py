"""Multi-head latent attention: low-rank keys and values, one shared rotary key, YaRN factor squared."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MLAConfig:
    dim = 48
    n_heads = 4
    q_lora_rank = 24
    kv_lora_rank = 16
    qk_nope_head_dim = 12
    qk_rope_head_dim = 8
    v_head_dim = 10
    rope_theta = 10000.0
    rope_factor = 4.0
    original_seq_len = 16
    beta_fast = 2
    beta_slow = 1
    mscale = 0.707


def yarn_freqs(args):
    dim, theta = args.qk_rope_head_dim, args.rope_theta

    def correction_dim(rotations):
        return dim * math.log(args.original_seq_len / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(correction_dim(args.beta_fast)), 0)
    high = min(math.ceil(correction_dim(args.beta_slow)), dim - 1)
    freqs = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
    ramp = ((torch.arange(dim // 2).float() - low) / max(high - low, 0.001)).clamp(0, 1)
    smooth = 1 - ramp
    return freqs / args.rope_factor * (1 - smooth) + freqs * smooth


def rotary_interleaved(x, freqs):
    angle = torch.outer(torch.arange(x.size(1), device=x.device).float(), freqs)
    cis = torch.polar(torch.ones_like(angle), angle)[None, :, None, :]
    z = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * cis).flatten(3).to(x.dtype)


class MLA(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        qk = args.qk_nope_head_dim + args.qk_rope_head_dim
        self.wq_a = nn.Linear(args.dim, args.q_lora_rank, bias=False)
        self.q_norm = nn.RMSNorm(args.q_lora_rank)
        self.wq_b = nn.Linear(args.q_lora_rank, args.n_heads * qk, bias=False)
        self.wkv_a = nn.Linear(args.dim, args.kv_lora_rank + args.qk_rope_head_dim, bias=False)
        self.kv_norm = nn.RMSNorm(args.kv_lora_rank)
        self.wkv_b = nn.Linear(args.kv_lora_rank, args.n_heads * (args.qk_nope_head_dim + args.v_head_dim), bias=False)
        self.wo = nn.Linear(args.n_heads * args.v_head_dim, args.dim, bias=False)
        self.register_buffer("freqs", yarn_freqs(args), persistent=False)
        mscale = 0.1 * args.mscale * math.log(args.rope_factor) + 1.0
        self.softmax_scale = qk**-0.5 * mscale * mscale

    def forward(self, x):
        a = self.args
        bsz, n, _ = x.shape
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(bsz, n, a.n_heads, -1)
        q_nope, q_pe = q.split([a.qk_nope_head_dim, a.qk_rope_head_dim], dim=-1)
        kv, k_pe = self.wkv_a(x).split([a.kv_lora_rank, a.qk_rope_head_dim], dim=-1)
        q_pe = rotary_interleaved(q_pe, self.freqs)
        k_pe = rotary_interleaved(k_pe.unsqueeze(2), self.freqs)
        kv = self.wkv_b(self.kv_norm(kv)).view(bsz, n, a.n_heads, -1)
        k_nope, v = kv.split([a.qk_nope_head_dim, a.v_head_dim], dim=-1)
        q = torch.cat([q_nope, q_pe], dim=-1)
        k = torch.cat([k_nope, k_pe.expand(-1, -1, a.n_heads, -1)], dim=-1)
        scores = torch.einsum("bshd,bthd->bsht", q, k) * self.softmax_scale
        mask = torch.full((n, n), float("-inf"), device=x.device).triu_(1)
        scores = scores + mask.unsqueeze(1)
        scores = scores.softmax(dim=-1, dtype=torch.float32).type_as(x)
        return self.wo(torch.einsum("bsht,bthd->bshd", scores, v).flatten(2))


class LatentLM(nn.Module):
    def __init__(self, args=MLAConfig(), vocab=81, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, args.dim)
        self.attn = nn.ModuleList(MLA(args) for _ in range(depth))
        self.attn_norm = nn.ModuleList(nn.RMSNorm(args.dim) for _ in range(depth))
        self.ffn = nn.ModuleList(nn.Linear(args.dim, args.dim) for _ in range(depth))
        self.ffn_norm = nn.ModuleList(nn.RMSNorm(args.dim) for _ in range(depth))
        self.head = nn.Linear(args.dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.embed(tokens)
        for attn, n1, ffn, n2 in zip(self.attn, self.attn_norm, self.ffn, self.ffn_norm):
            h = h + attn(n1(h))
            h = h + F.silu(ffn(n2(h)))
        return self.head(h)


with torch.random.fork_rng():
    torch.manual_seed(13)
    model = LatentLM().eval()

inputs = torch.randint(0, 81, (2, 10), generator=torch.Generator().manual_seed(14))
expect = {"causal": True}
