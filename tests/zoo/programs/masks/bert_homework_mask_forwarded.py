"""Assignment 4: a BERT-style encoder for tagging, padding handled with attention_mask."""

import math

import torch
import torch.nn as nn


class BertSelfAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)

    def transpose_for_scores(self, x):
        return x.view(*x.shape[:-1], self.num_heads, self.head_size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(hidden_states))
        v = self.transpose_for_scores(self.value(hidden_states))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_size)
        if attention_mask is not None:
            scores = scores + attention_mask
        probs = nn.functional.softmax(scores, dim=-1)
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return context.view(*context.shape[:2], -1)


class BertLayer(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.self_attention = BertSelfAttention(hidden_size, num_heads)
        self.attention_dense = nn.Linear(hidden_size, hidden_size)
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.interm = nn.Linear(hidden_size, 2 * hidden_size)
        self.out = nn.Linear(2 * hidden_size, hidden_size)
        self.out_norm = nn.LayerNorm(hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        attn = self.attention_dense(self.self_attention(hidden_states, attention_mask))
        hidden_states = self.attention_norm(hidden_states + attn)
        ff = self.out(nn.functional.gelu(self.interm(hidden_states)))
        return self.out_norm(hidden_states + ff)


class Tagger(nn.Module):
    def __init__(self, vocab=53, hidden_size=36, num_heads=3, num_layers=2, tags=7):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, hidden_size, padding_idx=0)
        self.pos_embeddings = nn.Embedding(40, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.layers = nn.ModuleList(BertLayer(hidden_size, num_heads) for _ in range(num_layers))
        self.classifier = nn.Linear(hidden_size, tags)

    def forward(self, input_ids, attention_mask):
        positions = torch.arange(input_ids.size(1))
        h = self.norm(self.word_embeddings(input_ids) + self.pos_embeddings(positions))
        extended_mask = (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
        for layer in self.layers:
            h = layer(h, extended_mask)
        return self.classifier(h)


with torch.random.fork_rng():
    torch.manual_seed(42)
    model = Tagger().eval()


def inputs():
    ids = torch.randint(1, 53, (4, 11), generator=torch.Generator().manual_seed(7))
    mask = torch.ones_like(ids)
    for row, n in enumerate((11, 6, 8, 4)):
        ids[row, n:] = 0
        mask[row, n:] = 0
    return {"input_ids": ids, "attention_mask": mask}


expect = {"padding": "attention_mask keep"}
