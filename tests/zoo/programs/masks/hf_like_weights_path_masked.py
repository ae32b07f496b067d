"""Modelling file of a small decoder; returns attention maps when the config asks for them."""

import torch
from torch import nn
import torch.nn.functional as F


class TinyLmConfig:
    def __init__(self, **kwargs):
        self.hidden_size = 48
        self.num_attention_heads = 6
        self.num_hidden_layers = 2
        self.vocab_size = 61
        self.max_position_embeddings = 40
        self.output_attentions = False
        self.__dict__.update(kwargs)


class TinyLmAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_dim = config.hidden_size // self.num_heads
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def _shape(self, t):
        return t.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, hidden_states, output_attentions=False):
        query = self._shape(self.q_proj(hidden_states))
        key = self._shape(self.k_proj(hidden_states))
        value = self._shape(self.v_proj(hidden_states))
        if not output_attentions:
            context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            probs = None
        else:
            # the fused kernel can't return the probabilities
            logits = torch.matmul(query, key.mT) * self.head_dim**-0.5
            length = logits.shape[-1]
            future = torch.ones(length, length, dtype=torch.bool, device=logits.device).triu(1)
            logits = logits.masked_fill(future, torch.finfo(logits.dtype).min)
            probs = nn.functional.softmax(logits, dim=-1, dtype=torch.float32).to(query.dtype)
            context = torch.matmul(probs, value)
        context = context.transpose(1, 2).flatten(2)
        return self.o_proj(context), probs


class TinyLmLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = TinyLmAttention(config)
        self.norm1 = nn.LayerNorm(config.hidden_size)
        self.norm2 = nn.LayerNorm(config.hidden_size)
        self.up = nn.Linear(config.hidden_size, 2 * config.hidden_size)
        self.down = nn.Linear(2 * config.hidden_size, config.hidden_size)

    def forward(self, x, output_attentions):
        attn, probs = self.self_attn(self.norm1(x), output_attentions)
        x = x + attn
        return x + self.down(F.silu(self.up(self.norm2(x)))), probs


class TinyLmForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        for table in (self.embed_tokens, self.embed_positions):
            nn.init.normal_(table.weight, std=0.05)
        self.layers = nn.ModuleList(TinyLmLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        position_ids = torch.arange(input_ids.shape[1]).unsqueeze(0)
        x = self.embed_tokens(input_ids) + self.embed_positions(position_ids)
        attentions = []
        for layer in self.layers:
            x, probs = layer(x, self.config.output_attentions)
            attentions.append(probs)
        logits = self.lm_head(self.norm(x))
        return (logits, tuple(attentions)) if self.config.output_attentions else logits


def make_model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return TinyLmForCausalLM(TinyLmConfig(output_attentions=True)).eval()


model = make_model()
inputs = {"input_ids": torch.randint(0, 61, (2, 14), generator=torch.Generator().manual_seed(2))}
expect = {"causal": True}
