"""Decoder with its own query scalar and grouped heads, one fused projection."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Gem2Config:
    def __init__(
        self,
        vocab_size=59,
        hidden_size=36,
        num_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        query_pre_attn_scalar=9,
        attn_logit_softcapping=2.0,
        sliding_window=6,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.head_dim = head_dim
        self.query_pre_attn_scalar = query_pre_attn_scalar
        self.attn_logit_softcapping = attn_logit_softcapping
        self.sliding_window = sliding_window


class Gem2Attention(nn.Module):
    def __init__(self, config: Gem2Config, layer_idx: int):
        super().__init__()
        self.config = config
        self.num_heads = config.num_attention_heads
        self.num_kv_heads = config.num_key_value_heads
        self.head_dim = config.head_dim
        self.q_size = self.num_heads * self.head_dim
        self.kv_size = self.num_kv_heads * self.head_dim
        self.scaling = config.query_pre_attn_scalar**-0.5
        self.softcap = config.attn_logit_softcapping
        self.sliding_window = config.sliding_window if layer_idx % 2 == 0 else None
        self.qkv_proj = nn.Linear(config.hidden_size, self.q_size + 2 * self.kv_size, bias=False)
        self.o_proj = nn.Linear(self.q_size, config.hidden_size, bias=False)

    def forward(self, hidden):
        bsz, seq, _ = hidden.shape
        xq, xk, xv = self.qkv_proj(hidden).chunk(3, dim=-1)  # fault: AS105|AS103
        xq = xq.view(bsz, seq, self.num_heads, self.head_dim)  # fault: AS105|AS103
        xk = xk.view(bsz, seq, self.num_kv_heads, self.head_dim)
        xv = xv.view(bsz, seq, self.num_kv_heads, self.head_dim)
        if self.num_kv_heads != self.num_heads:
            xk = torch.repeat_interleave(xk, self.num_heads // self.num_kv_heads, dim=2)
            xv = torch.repeat_interleave(xv, self.num_heads // self.num_kv_heads, dim=2)

        q = xq.transpose(1, 2) * self.scaling
        k = xk.transpose(1, 2)
        v = xv.transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3))
        scores = torch.tanh(scores / self.softcap) * self.softcap
        i = torch.arange(seq)[:, None]
        j = torch.arange(seq)[None, :]
        allowed = j <= i
        if self.sliding_window is not None:
            allowed = allowed & (i - j < self.sliding_window)
        scores = scores.masked_fill(~allowed, -2.3819763e38)
        scores = F.softmax(scores.float(), dim=-1).type_as(q)
        output = torch.matmul(scores, v).transpose(1, 2).contiguous().view(bsz, seq, -1)
        return self.o_proj(output)


class Gem2Block(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = Gem2Attention(config, layer_idx)
        self.pre = nn.RMSNorm(config.hidden_size)
        self.pre_ff = nn.RMSNorm(config.hidden_size)
        self.up = nn.Linear(config.hidden_size, 2 * config.hidden_size)
        self.down = nn.Linear(2 * config.hidden_size, config.hidden_size)

    def forward(self, x):
        x = x + self.self_attn(self.pre(x))
        return x + self.down(F.gelu(self.up(self.pre_ff(x)), approximate="tanh"))


class Gem2ForCausalLM(nn.Module):
    def __init__(self, config: Gem2Config):
        super().__init__()
        self.config = config
        self.embedder = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(64, config.hidden_size)
        self.layers = nn.ModuleList(Gem2Block(config, i) for i in range(config.num_layers))
        self.norm = nn.RMSNorm(config.hidden_size)

    def forward(self, input_token_ids):
        x = self.embedder(input_token_ids) + self.position.weight[: input_token_ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embedder.weight.t()


def model():
    with torch.random.fork_rng():
        torch.manual_seed(9)
        return Gem2ForCausalLM(Gem2Config()).eval()


def inputs():
    return (torch.randint(0, 59, (2, 14), generator=torch.Generator().manual_seed(1)),)
