"""BERT as a decoder with relative_key positions and a cache, https://github.com/huggingface/transformers/issues/19045."""

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class BertishConfig:
    vocab_size: int = 71
    hidden_size: int = 36
    num_attention_heads: int = 3
    num_hidden_layers: int = 2
    max_position_embeddings: int = 24


class BertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.max_position_embeddings = config.max_position_embeddings
        self.distance_embedding = nn.Embedding(
            2 * config.max_position_embeddings - 1, self.attention_head_size
        )

    def transpose_for_scores(self, x):
        new_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        return x.view(new_shape).permute(0, 2, 1, 3)

    def forward(self, hidden_states, past_key_value=None):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        if past_key_value is not None:
            key_layer = torch.cat([past_key_value[0], key_layer], dim=2)
            value_layer = torch.cat([past_key_value[1], value_layer], dim=2)

        scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))

        seq_length = hidden_states.size(1)
        positions_l = torch.arange(seq_length).view(-1, 1)  # fault: AS601
        positions_r = torch.arange(seq_length).view(1, -1)  # fault: AS601
        distance = positions_l - positions_r
        positional = self.distance_embedding(distance + self.max_position_embeddings - 1)
        scores = scores + torch.einsum("bhld,lrd->bhlr", query_layer, positional)

        scores = scores / math.sqrt(self.attention_head_size)
        offset = key_layer.size(2) - seq_length
        visible = torch.ones(seq_length, key_layer.size(2), dtype=torch.bool).tril(offset)
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        probs = nn.functional.softmax(scores, dim=-1)
        context = torch.matmul(probs, value_layer).permute(0, 2, 1, 3).contiguous()
        return context.view(hidden_states.shape), (key_layer, value_layer)


class BertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self = BertSelfAttention(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size)

    def forward(self, hidden_states, past_key_value=None):
        context, present = self.self(hidden_states, past_key_value)
        return self.LayerNorm(self.dense(context) + hidden_states), present


class BertLMHeadModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layer = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])
        self.cls = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, input_ids, past_key_values=None):
        hidden_states = self.word_embeddings(input_ids)
        presents = []
        for i, layer in enumerate(self.layer):
            past = None if past_key_values is None else past_key_values[i]
            hidden_states, present = layer(hidden_states, past)
            presents.append(present)
        return self.cls(hidden_states), tuple(presents)


with torch.random.fork_rng():
    torch.manual_seed(19)
    model = BertLMHeadModel(BertishConfig()).eval()
    inputs = {"input_ids": torch.randint(0, 71, (2, 7))}
expect = {"causal": True, "cache": "past_key_values"}
