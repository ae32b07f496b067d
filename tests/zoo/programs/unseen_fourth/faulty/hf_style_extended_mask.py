"""Hugging Face like encoder file with an extended attention mask."""
from dataclasses import dataclass
import math
import torch
from torch import nn


@dataclass
class TinyConfig:
    vocab_size: int = 85
    hidden_size: int = 44
    num_attention_heads: int = 4
    num_hidden_layers: int = 2
    max_position_embeddings: int = 32


class TinySelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def transpose_for_scores(self, x):
        return x.view(*x.shape[:-1], self.num_attention_heads, self.attention_head_size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        q, k, v = map(self.transpose_for_scores, (self.query(hidden_states), self.key(hidden_states), self.value(hidden_states)))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            scores = scores + attention_mask
        ctx = (scores.softmax(dim=-1) @ v).permute(0, 2, 1, 3).flatten(2)
        return self.dense(ctx)


class TinyModel(nn.Module):
    def __init__(self, config=TinyConfig()):
        super().__init__()
        self.config = config
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layer = nn.ModuleList([TinySelfAttention(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.ModuleList([nn.LayerNorm(config.hidden_size) for _ in range(config.num_hidden_layers)])

    def get_extended_attention_mask(self, attention_mask):
        ext = attention_mask[:, None, None, :].to(self.word_embeddings.weight.dtype)
        return ext - 1.0  # fault: AS207

    def forward(self, input_ids, attention_mask):
        mask = self.get_extended_attention_mask(attention_mask)
        x = self.word_embeddings(input_ids) + self.position_embeddings(torch.arange(input_ids.size(1)))[None]
        for layer, norm in zip(self.layer, self.norm):
            x = norm(x + layer(x, mask))
        return x


def model():
    torch.manual_seed(1)
    return TinyModel().eval()


inputs = {"input_ids": torch.randint(1, 85, (2, 10), generator=torch.Generator().manual_seed(2)),
          "attention_mask": torch.tensor([[1] * 10, [1] * 6 + [0] * 4])}
# also: AS202
