"""BERT modelling file: config class, extended attention mask, absolute positions."""
import math

import torch
from torch import nn


class BertishConfig:
    def __init__(self, vocab_size=71, hidden_size=40, num_hidden_layers=2, num_attention_heads=5, intermediate_size=64,
                 max_position_embeddings=40, pad_token_id=0, attention_probs_dropout_prob=0.1):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.max_position_embeddings = max_position_embeddings
        self.pad_token_id = pad_token_id
        self.attention_probs_dropout_prob = attention_probs_dropout_prob


class BertishSelfAttention(nn.Module):
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
        x = x.view(x.size()[:-1] + (self.num_attention_heads, self.attention_head_size))
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        attention_scores = attention_scores + attention_mask  # fault: AS207
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        attention_probs = self.dropout(attention_probs)
        context_layer = torch.matmul(attention_probs, value_layer)
        context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        return context_layer.view(context_layer.size()[:-2] + (self.all_head_size,))


class BertishLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = BertishSelfAttention(config)
        self.attention_output = nn.Linear(config.hidden_size, config.hidden_size)
        self.attention_norm = nn.LayerNorm(config.hidden_size)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.output_norm = nn.LayerNorm(config.hidden_size)

    def forward(self, hidden_states, attention_mask):
        attention = self.attention_output(self.attention(hidden_states, attention_mask))
        hidden_states = self.attention_norm(attention + hidden_states)
        output = self.output(nn.functional.gelu(self.intermediate(hidden_states)))
        return self.output_norm(output + hidden_states)


class BertishModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size)
        self.layers = nn.ModuleList([BertishLayer(config) for _ in range(config.num_hidden_layers)])

    def get_extended_attention_mask(self, attention_mask):
        extended = attention_mask[:, None, None, :].to(dtype=torch.float32)
        return extended

    def forward(self, input_ids, attention_mask):
        position_ids = torch.arange(input_ids.size(1)).unsqueeze(0)
        hidden = self.layer_norm(self.word_embeddings(input_ids) + self.position_embeddings(position_ids))
        extended = self.get_extended_attention_mask(attention_mask)
        for layer in self.layers:
            hidden = layer(hidden, extended)
        return hidden


def model():
    torch.manual_seed(42)
    return BertishModel(BertishConfig()).eval()


def inputs():
    g = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 71, (3, 12), generator=g)
    keep = torch.ones(3, 12, dtype=torch.long)
    keep[1, 9:] = 0
    keep[2, 6:] = 0
    return {"input_ids": ids * keep, "attention_mask": keep}


# also: AS202
expect = {"causal": False, "padding": "attention_mask keep"}
