"""PyTorch Zephyrine model: grouped heads, capped logits, own scale, partial rotary."""

from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class ZephyrineConfig:
    vocab_size: int = 101
    hidden_size: int = 48
    intermediate_size: int = 96
    num_hidden_layers: int = 2
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 12
    query_pre_attn_scalar: float = 20.0
    attn_logit_softcapping: Optional[float] = 3.0
    rope_theta: float = 5000.0
    partial_rotary_factor: float = 0.5
    rms_norm_eps: float = 1e-6
    pad_token_id: int = 0


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    rot = cos.shape[-1]
    q_rot, q_pass = q[..., :rot], q[..., rot:]
    k_rot, k_pass = k[..., :rot], k[..., rot:]
    q_rot = (q_rot * cos) + (rotate_half(q_rot) * sin)
    k_rot = (k_rot * cos) + (rotate_half(k_rot) * sin)
    return torch.cat([q_rot, q_pass], dim=-1), torch.cat([k_rot, k_pass], dim=-1)


def repeat_kv(hidden_states, n_rep):
    batch, num_key_value_heads, slen, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)
    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)


def eager_attention_forward(module, query, key, value, attention_mask, scaling, softcap=None):
    key_states = repeat_kv(key, module.num_key_value_groups)
    value_states = repeat_kv(value, module.num_key_value_groups)
    attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling  # fault: AS306
    if softcap is not None:
        attn_weights = torch.tanh(attn_weights / softcap) * softcap
    attn_weights = attn_weights + attention_mask
    attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)  # fault: AS306
    attn_output = torch.matmul(attn_weights, value_states)
    return attn_output.transpose(1, 2).contiguous(), attn_weights


class ZephyrineRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim = int(config.head_dim * config.partial_rotary_factor)
        inv_freq = 1.0 / (config.rope_theta ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, position_ids):
        freqs = position_ids[:, :, None].float() * self.inv_freq[None, None, :]
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()


class ZephyrineAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.head_dim = config.head_dim
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.scaling = config.query_pre_attn_scalar**-0.5
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * self.head_dim, config.hidden_size, bias=False)

    def forward(self, hidden_states, position_embeddings, attention_mask):
        hidden_shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, *position_embeddings)
        attn_output, attn_weights = eager_attention_forward(  # fault: AS306
            self, query_states, key_states, value_states, attention_mask, self.scaling  # fault: AS306
        )
        return self.o_proj(attn_output.flatten(2)), attn_weights


class ZephyrineDecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = ZephyrineAttention(config)
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, hidden_states, position_embeddings, attention_mask):
        residual = hidden_states
        hidden_states, weights = self.self_attn(self.input_layernorm(hidden_states), position_embeddings, attention_mask)
        hidden_states = residual + hidden_states
        residual = hidden_states
        h = self.post_attention_layernorm(hidden_states)
        hidden_states = self.down_proj(nn.functional.silu(self.gate_proj(h)) * self.up_proj(h))
        return residual + hidden_states, weights


class ZephyrineForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList([ZephyrineDecoderLayer(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary_emb = ZephyrineRotaryEmbedding(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def _update_causal_mask(self, attention_mask, inputs_embeds):
        batch, length = attention_mask.shape
        min_dtype = torch.finfo(inputs_embeds.dtype).min
        causal = torch.full((length, length), min_dtype, dtype=inputs_embeds.dtype).triu(1)
        causal = causal[None, None].expand(batch, 1, -1, -1).clone()
        causal = causal.masked_fill(attention_mask[:, None, None, :] == 0, min_dtype)
        return causal

    def forward(self, input_ids, attention_mask, output_attentions=False):
        inputs_embeds = self.embed_tokens(input_ids)
        position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
        position_embeddings = self.rotary_emb(position_ids)
        causal_mask = self._update_causal_mask(attention_mask, inputs_embeds)
        hidden_states = inputs_embeds
        attentions = ()
        for layer in self.layers:
            hidden_states, weights = layer(hidden_states, position_embeddings, causal_mask)
            attentions += (weights,)
        logits = self.lm_head(self.norm(hidden_states))
        return (logits, attentions) if output_attentions else (logits,)


with torch.random.fork_rng():
    torch.manual_seed(1234)
    model = ZephyrineForCausalLM(ZephyrineConfig()).eval()
    input_ids = torch.randint(1, 101, (3, 13))
attention_mask = torch.ones_like(input_ids)
attention_mask[0, :5] = 0
attention_mask[2, :2] = 0
inputs = {"input_ids": input_ids.masked_fill(attention_mask == 0, 0), "attention_mask": attention_mask}
expect = {"causal": True, "padding": "attention_mask keep"}
# also: AS208
