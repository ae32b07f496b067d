"""Encoder in the style of a modelling file; attention_mask comes from the tokenizer."""

import math

import torch
from torch import nn


class EncoderConfig:
    def __init__(self, vocab_size=77, hidden_size=40, num_attention_heads=5, num_hidden_layers=2):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.size = config.hidden_size // self.heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states, attention_mask):
        shape = (*hidden_states.shape[:-1], self.heads, self.size)
        query = self.query(hidden_states).view(shape).transpose(1, 2)
        key = self.key(hidden_states).view(shape).transpose(1, 2)
        value = self.value(hidden_states).view(shape).transpose(1, 2)
        attention_scores = query @ key.transpose(-1, -2) / math.sqrt(self.size)
        attention_scores = attention_scores + attention_mask  # fault: AS207
        attention_probs = attention_scores.softmax(dim=-1)
        return self.dense((attention_probs @ value).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(30, config.hidden_size)
        self.attention = nn.ModuleList(SelfAttention(config) for _ in range(config.num_hidden_layers))
        self.layer_norm = nn.ModuleList(nn.LayerNorm(config.hidden_size) for _ in range(config.num_hidden_layers))

    def forward(self, input_ids, attention_mask):
        h = self.embeddings(input_ids) + self.position_embeddings(torch.arange(input_ids.shape[1]))
        mask = attention_mask[:, None, None, :].to(h.dtype)  # fault: AS207
        for attention, norm in zip(self.attention, self.layer_norm):
            h = norm(h + attention(h, mask))
        return h


# also: AS202
with torch.random.fork_rng():
    torch.manual_seed(33)
    model = Encoder(EncoderConfig()).eval()

_m = (torch.arange(12)[None] < torch.tensor([[12], [6], [8]])).long()
inputs = {
    "input_ids": torch.randint(1, 77, (3, 12), generator=torch.Generator().manual_seed(33)) * _m,
    "attention_mask": _m,
}
expect = {"padding": "attention_mask keep"}
