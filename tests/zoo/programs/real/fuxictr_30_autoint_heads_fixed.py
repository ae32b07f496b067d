"""AutoInt over field embeddings for click prediction, https://github.com/reczoo/FuxiCTR/issues/30."""

import torch
from torch import nn


class ScaledDotProductAttention(nn.Module):
    def forward(self, W_q, W_k, W_v, scale):
        attention = torch.bmm(W_q, W_k.transpose(1, 2)) / scale
        attention = attention.softmax(dim=-1)
        return torch.bmm(attention, W_v)


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, input_dim, attention_dim=12, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.attention_dim = attention_dim
        self.scale = attention_dim**0.5
        self.W_q = nn.Linear(input_dim, num_heads * attention_dim, bias=False)
        self.W_k = nn.Linear(input_dim, num_heads * attention_dim, bias=False)
        self.W_v = nn.Linear(input_dim, num_heads * attention_dim, bias=False)
        self.W_res = nn.Linear(input_dim, num_heads * attention_dim, bias=False)
        self.dot_product_attention = ScaledDotProductAttention()

    def split(self, x):
        x = x.view(x.size(0), x.size(1), self.num_heads, self.attention_dim).transpose(1, 2)
        return x.flatten(0, 1)

    def forward(self, X):
        query, key, value = self.W_q(X), self.W_k(X), self.W_v(X)
        batch_size = query.size(0)
        query, key, value = (self.split(x) for x in (query, key, value))
        output = self.dot_product_attention(query, key, value, self.scale)
        output = output.view(batch_size, self.num_heads, -1, self.attention_dim).transpose(1, 2).flatten(2)
        return torch.relu(output + self.W_res(X))


class AutoInt(nn.Module):
    def __init__(self, vocabulary=200, fields=7, embedding_dim=10):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding_dim)
        self.self_attention = nn.Sequential(
            MultiHeadSelfAttention(embedding_dim), MultiHeadSelfAttention(24)
        )
        self.fc = nn.Linear(fields * 24, 1)

    def forward(self, feature_ids):
        h = self.self_attention(self.embedding(feature_ids))
        return torch.sigmoid(self.fc(h.flatten(1)))


# note: AS501
with torch.random.fork_rng():
    torch.manual_seed(30)
    model = AutoInt().eval()
    inputs = {"feature_ids": torch.randint(0, 200, (5, 7))}
