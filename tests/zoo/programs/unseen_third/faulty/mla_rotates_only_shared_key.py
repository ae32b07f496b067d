"""Multi-head latent attention as in DeepSeek-V2, no absorption trick."""
import torch
import torch.nn as nn


def apply_rope(x, base=10000.0):  # (..., seq, dim)
    n, d = x.shape[-2:]
    inv = 1.0 / base ** (torch.arange(0, d, 2) / d)
    f = torch.outer(torch.arange(n).float(), inv)
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], d // 2, 2).contiguous())
    return torch.view_as_real(xc * torch.polar(torch.ones_like(f), f)).flatten(-2).to(x.dtype)


class MLA(nn.Module):
    def __init__(self, dim=56, n_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_nope=10, qk_rope=6, v_head=12):
        super().__init__()
        self.n_heads, self.nope, self.rope, self.vd = n_heads, qk_nope, qk_rope, v_head
        self.kv_rank = kv_lora_rank
        self.wq_a = nn.Linear(dim, q_lora_rank, bias=False)
        self.q_norm = nn.RMSNorm(q_lora_rank)
        self.wq_b = nn.Linear(q_lora_rank, n_heads * (qk_nope + qk_rope), bias=False)
        self.wkv_a = nn.Linear(dim, kv_lora_rank + qk_rope, bias=False)
        self.kv_norm = nn.RMSNorm(kv_lora_rank)
        self.wkv_b = nn.Linear(kv_lora_rank, n_heads * (qk_nope + v_head), bias=False)
        self.wo = nn.Linear(n_heads * v_head, dim, bias=False)
        self.softmax_scale = (qk_nope + qk_rope) ** -0.5

    def forward(self, x):
        b, s, _ = x.shape
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(b, s, self.n_heads, -1).transpose(1, 2)
        q_nope, q_pe = q.split([self.nope, self.rope], dim=-1)
        kv, k_pe = self.wkv_a(x).split([self.kv_rank, self.rope], dim=-1)
        k_pe = apply_rope(k_pe.unsqueeze(1))
        q = torch.cat([q_nope, q_pe], dim=-1)  # fault: AS503
        kv = self.wkv_b(self.kv_norm(kv)).view(b, s, self.n_heads, -1).transpose(1, 2)
        k_nope, v = kv.split([self.nope, self.vd], dim=-1)
        k = torch.cat([k_nope, k_pe.expand(-1, self.n_heads, -1, -1)], dim=-1)  # fault: AS503
        scores = q @ k.mT * self.softmax_scale
        scores = scores.masked_fill(torch.ones(s, s, dtype=torch.bool).triu(1), float("-inf"))
        x = scores.softmax(-1) @ v
        return self.wo(x.transpose(1, 2).flatten(2))


torch.manual_seed(31)
model = MLA().eval()
