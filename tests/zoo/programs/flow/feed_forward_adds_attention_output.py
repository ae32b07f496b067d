"""Pre-norm BERT-like layers with separate names for each stage."""

import torch
from torch import nn
import torch.nn.functional as F


class BertLikeLayer(nn.Module):
    def __init__(self, hidden, heads, inner):
        super().__init__()
        self.heads = heads
        self.ln_before = nn.LayerNorm(hidden)
        self.ln_after = nn.LayerNorm(hidden)
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.intermediate = nn.Linear(hidden, inner)
        self.output = nn.Linear(inner, hidden)

    def self_attention(self, hidden_states):
        shape = (*hidden_states.shape[:2], self.heads, -1)
        q = self.query(hidden_states).view(shape).transpose(1, 2)
        k = self.key(hidden_states).view(shape).transpose(1, 2)
        v = self.value(hidden_states).view(shape).transpose(1, 2)
        probs = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.dense((probs @ v).transpose(1, 2).flatten(2))

    def forward(self, hidden_states):
        attention_output = self.self_attention(self.ln_before(hidden_states))
        attention_output = attention_output + hidden_states
        intermediate = F.gelu(self.intermediate(self.ln_after(attention_output)))
        return self.output(intermediate) + attention_output


class BertLike(nn.Module):
    def __init__(self, vocab=110, hidden=40, heads=5, depth=2, places=64):
        super().__init__()
        self.word = nn.Embedding(vocab, hidden)
        self.position = nn.Embedding(places, hidden)
        self.layer = nn.ModuleList(BertLikeLayer(hidden, heads, 80) for _ in range(depth))

    def forward(self, input_ids):
        x = self.word(input_ids) + self.position(torch.arange(input_ids.shape[1]))
        for layer in self.layer:
            x = layer(x)
        return x


with torch.random.fork_rng():
    torch.manual_seed(106)
    model = BertLike().eval()

inputs = {"input_ids": torch.randint(0, 110, (2, 14), generator=torch.Generator().manual_seed(106))}
