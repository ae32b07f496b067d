"""Llama-like block on FlexAttention that can return its attentions, https://github.com/huggingface/transformers/issues/36096."""

import warnings
from collections import namedtuple

import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")

ModelOutput = namedtuple("ModelOutput", "last_hidden_state attentions")


def causal_mod(score, b, h, q_idx, kv_idx):
    return torch.where(q_idx >= kv_idx, score, float("-inf"))


def eager_attention_forward(module, query, key, value, scaling):
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(2, 3) * scaling
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    attn_weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
    return (attn_weights @ value).transpose(1, 2).contiguous(), attn_weights


def flex_attention_forward(module, query, key, value, scaling):
    attn_output = flex_attention(
        query,
        key,
        value,
        score_mod=causal_mod,
        enable_gqa=True,
        scale=scaling,
    )
    return attn_output.transpose(1, 2).contiguous(), None


class Attention(nn.Module):
    def __init__(self, hidden_size, num_heads, num_kv_heads):
        super().__init__()
        self.head_dim = hidden_size // num_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(hidden_size, num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden_states, output_attentions=False):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        attend = eager_attention_forward if output_attentions else flex_attention_forward
        out, weights = attend(self, q, k, v, self.scaling)
        return self.o_proj(out.reshape(*hidden_states.shape[:-1], -1)), weights


class Model(nn.Module):
    def __init__(self, vocab_size=43, hidden_size=64, num_heads=4, num_kv_heads=2, num_layers=2):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.embed_positions = nn.Embedding(32, hidden_size)
        self.norms = nn.ModuleList([nn.RMSNorm(hidden_size) for _ in range(num_layers)])
        self.layers = nn.ModuleList(
            [Attention(hidden_size, num_heads, num_kv_heads) for _ in range(num_layers)]
        )

    def forward(self, input_ids, output_attentions=True):
        hidden = self.embed_tokens(input_ids) + self.embed_positions.weight[: input_ids.shape[1]]
        attentions = []
        for norm, layer in zip(self.norms, self.layers):
            attended, weights = layer(norm(hidden), output_attentions)
            hidden = hidden + attended
            attentions.append(weights)
        return ModelOutput(hidden, tuple(attentions))


with torch.random.fork_rng():
    torch.manual_seed(36)
    model = Model().eval().requires_grad_(False)
    inputs = {"input_ids": torch.randint(0, 43, (3, 10)), "output_attentions": True}
expect = {"causal": True}
