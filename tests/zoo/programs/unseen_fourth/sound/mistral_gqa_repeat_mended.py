"""Grouped query attention module for a small decoder."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def repeat_kv(x, n_rep):
    if n_rep == 1:
        return x
    return x.repeat_interleave(n_rep, dim=1)


class GQA(nn.Module):
    def __init__(self, hidden_size=48, num_heads=6, num_key_value_heads=2):
        super().__init__()
        self.hd = hidden_size // num_heads
        self.nh, self.nkv = num_heads, num_key_value_heads
        self.q_proj = nn.Linear(hidden_size, num_heads * self.hd, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_key_value_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_key_value_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(num_heads * self.hd, hidden_size, bias=False)

    def forward(self, hidden_states):
        bsz, q_len, _ = hidden_states.size()
        q = self.q_proj(hidden_states).view(bsz, q_len, self.nh, self.hd).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, q_len, self.nkv, self.hd).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, q_len, self.nkv, self.hd).transpose(1, 2)
        k, v = repeat_kv(k, self.nh // self.nkv), repeat_kv(v, self.nh // self.nkv)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(o.transpose(1, 2).reshape(bsz, q_len, -1))


def model():
    torch.manual_seed(31)
    return GQA().eval()
# note: AS501
