"""GPT-J block: attention and MLP side by side, rotary embedding on a quarter of each head, interleaved."""

import torch
from torch import nn


def create_sinusoidal_positions(num_pos, dim):
    inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
    sinusoid = torch.einsum("i,j->ij", torch.arange(num_pos).float(), inv_freq)
    return torch.sin(sinusoid), torch.cos(sinusoid)


def rotate_every_two(x):
    x1 = x[:, :, :, ::2]
    x2 = x[:, :, :, 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def apply_rotary_pos_emb(tensor, sin, cos):
    sin = torch.repeat_interleave(sin[None, :, None, :], 2, 3)
    cos = torch.repeat_interleave(cos[None, :, None, :], 2, 3)
    return (tensor * cos) + (rotate_every_two(tensor) * sin)


class GPTJAttention(nn.Module):
    def __init__(self, n_embd, n_head, rotary_dim, max_positions=64):
        super().__init__()
        self.num_attention_heads = n_head
        self.head_dim = n_embd // n_head
        self.rotary_dim = rotary_dim
        self.register_buffer("bias", torch.tril(torch.ones(max_positions, max_positions, dtype=torch.bool))[None, None])
        self.scale_attn = self.head_dim**0.5
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(n_embd, n_embd, bias=False) for _ in range(4))
        self.sin, self.cos = create_sinusoidal_positions(max_positions, rotary_dim)

    def forward(self, hidden_states):
        b, t, d = hidden_states.shape
        shape = (b, t, self.num_attention_heads, self.head_dim)
        query = self.q_proj(hidden_states).view(shape)
        key = self.k_proj(hidden_states).view(shape)
        value = self.v_proj(hidden_states).view(shape).permute(0, 2, 1, 3)
        sin, cos = self.sin[:t], self.cos[:t]
        k_rot, k_pass = key[..., : self.rotary_dim], key[..., self.rotary_dim :]
        q_rot, q_pass = query[..., : self.rotary_dim], query[..., self.rotary_dim :]
        key = torch.cat([apply_rotary_pos_emb(k_rot, sin, cos), k_pass], dim=-1).permute(0, 2, 1, 3)
        query = torch.cat([apply_rotary_pos_emb(q_rot, sin, cos), q_pass], dim=-1).permute(0, 2, 1, 3)
        attn = torch.matmul(query, key.transpose(-1, -2))
        attn = torch.where(self.bias[:, :, :t, :t], attn, torch.finfo(attn.dtype).min) / self.scale_attn
        attn = nn.functional.softmax(attn, dim=-1)
        return self.out_proj(torch.matmul(attn, value).permute(0, 2, 1, 3).reshape(b, t, d))


class GPTJBlock(nn.Module):
    def __init__(self, n_embd, n_head, rotary_dim):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = GPTJAttention(n_embd, n_head, rotary_dim)
        self.fc_in = nn.Linear(n_embd, 2 * n_embd)
        self.fc_out = nn.Linear(2 * n_embd, n_embd)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        feed_forward = self.fc_out(nn.functional.gelu(self.fc_in(hidden_states)))
        return self.attn(hidden_states) + feed_forward + residual


class GPTJ(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(58, 64)
        self.h = nn.Sequential(*[GPTJBlock(64, 4, rotary_dim=4) for _ in range(2)])
        self.ln_f = nn.LayerNorm(64)
        self.lm_head = nn.Linear(64, 58)

    def forward(self, input_ids):
        return self.lm_head(self.ln_f(self.h(self.wte(input_ids))))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return GPTJ().eval()


inputs = {"input_ids": torch.randint(0, 58, (2, 11), generator=torch.Generator().manual_seed(10))}
expect = {"causal": True}
