"""Encoder for sentence pairs, original module layout."""

import math

import torch
from torch import nn


class BertConfig:
    def __init__(self, vocab_size=71, hidden_size=36, num_hidden_layers=2, num_attention_heads=6, max_position=40):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.max_position = max_position
        self.attention_probs_dropout_prob = 0.1


class BertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.query = nn.Linear(config.hidden_size, self.all_head_size)
        self.key = nn.Linear(config.hidden_size, self.all_head_size)
        self.value = nn.Linear(config.hidden_size, self.all_head_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def transpose_for_scores(self, x):
        x = x.view(*x.size()[:-1], self.num_attention_heads, self.attention_head_size)
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))

        # Take the dot product between "query" and "key" to get the raw attention scores.
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        attention_scores = attention_scores + attention_mask

        # Normalize the attention scores to probabilities.
        attention_probs = nn.Softmax(dim=1)(attention_scores)  # fault: AS101
        attention_probs = self.dropout(attention_probs)
        context_layer = torch.matmul(attention_probs, value_layer)
        context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        return context_layer.view(*context_layer.size()[:-2], self.all_head_size)


class BertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = BertSelfAttention(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=1e-12)
        self.ffn = nn.Sequential(nn.Linear(config.hidden_size, 80), nn.GELU(), nn.Linear(80, config.hidden_size))
        self.ffn_norm = nn.LayerNorm(config.hidden_size, eps=1e-12)

    def forward(self, x, mask):
        x = self.LayerNorm(x + self.dense(self.attention(x, mask)))
        return self.ffn_norm(x + self.ffn(x))


class BertModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.positions = nn.Embedding(config.max_position, config.hidden_size)
        self.layer = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, input_ids, attention_mask):
        extended = (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
        x = self.words(input_ids) + self.positions(torch.arange(input_ids.size(1)))
        for layer in self.layer:
            x = layer(x, extended)
        return x


def model():
    with torch.random.fork_rng():
        torch.manual_seed(330)
        return BertModel(BertConfig()).eval()


def inputs():
    ids = torch.randint(1, 71, (3, 13), generator=torch.Generator().manual_seed(331))
    mask = torch.ones_like(ids)
    for row, length in ((0, 9), (2, 11)):
        mask[row, length:] = 0
        ids[row, length:] = 0
    return {"input_ids": ids, "attention_mask": mask}

# also: AS202
