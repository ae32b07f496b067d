"""qwen-style attention layer with q/k norm and grouped kv, ported by hand."""
import torch
import torch.nn as nn


class Qwen3RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        v = hidden_states.pow(2).mean(-1, keepdim=True)
        return self.weight * hidden_states * torch.rsqrt(v + self.variance_epsilon)


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class Attention(nn.Module):
    def __init__(self, hidden_size=64, num_attention_heads=8, num_key_value_heads=2, head_dim=12, rope_theta=1e6):
        super().__init__()
        self.num_heads, self.num_kv = num_attention_heads, num_key_value_heads
        self.num_key_value_groups = num_attention_heads // num_key_value_heads
        self.head_dim = head_dim
        self.scaling = head_dim**-0.5
        self.q_proj = nn.Linear(hidden_size, self.num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, self.num_kv * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, self.num_kv * head_dim, bias=False)
        self.o_proj = nn.Linear(self.num_heads * head_dim, hidden_size, bias=False)
        self.q_norm, self.k_norm = Qwen3RMSNorm(head_dim), Qwen3RMSNorm(head_dim)
        inv = 1.0 / rope_theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, hidden_states):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q = self.q_norm(self.q_proj(hidden_states).view(shape)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(shape)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        T = q.shape[2]
        ang = torch.arange(T)[:, None] * self.inv_freq[None]
        cos, sin = torch.cat((ang, ang), -1).cos(), torch.cat((ang, ang), -1).sin()
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        k = k.repeat_interleave(self.num_key_value_groups, dim=1)
        v = v.repeat_interleave(self.num_key_value_groups, dim=1)
        w = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        w = w + torch.full((T, T), torch.finfo(w.dtype).min).triu(1)
        w = nn.functional.softmax(w, dim=-1, dtype=torch.float32).to(q.dtype)
        o = torch.matmul(w, v).transpose(1, 2).contiguous()
        return self.o_proj(o.reshape(*hidden_states.shape[:-1], -1))


torch.manual_seed(11)
model = Attention().eval()
inputs = torch.randn(2, 9, 64, generator=torch.Generator().manual_seed(3))
