"""Functional self-attention after the 2018 TensorFlow codes: padding is where embeddings are zero."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def multihead_attention(queries, keys, wq, wk, wv, num_heads):
    Q, K, V = F.relu(wq(queries)), F.relu(wk(keys)), F.relu(wv(keys))
    Q_ = torch.cat(torch.split(Q, Q.shape[-1] // num_heads, dim=2), dim=0)  # (h*N, T_q, C/h)
    K_ = torch.cat(torch.split(K, K.shape[-1] // num_heads, dim=2), dim=0)
    V_ = torch.cat(torch.split(V, V.shape[-1] // num_heads, dim=2), dim=0)

    outputs = torch.matmul(Q_, K_.transpose(1, 2)) / (K_.shape[-1] ** 0.5)

    # key masking
    key_masks = torch.sign(torch.abs(torch.sum(keys, dim=-1)))  # fault: AS202
    key_masks = key_masks.repeat(num_heads, 1)
    key_masks = key_masks.unsqueeze(1).expand(-1, queries.shape[1], -1)
    outputs = torch.where(key_masks == 0, torch.full_like(outputs, -(2.0**32) + 1), outputs)

    outputs = F.softmax(outputs, dim=-1)
    outputs = torch.matmul(outputs, V_)
    outputs = torch.cat(torch.split(outputs, queries.shape[0], dim=0), dim=2)
    return outputs + queries


def sinusoid(T, E):
    enc = np.array([[p / np.power(10000, (i - i % 2) / E) for i in range(E)] for p in range(T)])
    enc[:, 0::2] = np.sin(enc[:, 0::2])
    enc[:, 1::2] = np.cos(enc[:, 1::2])
    return torch.tensor(enc, dtype=torch.float32)


class QueryEncoder(nn.Module):
    def __init__(self, vocab_size=45, num_units=24, num_heads=3, num_blocks=2):
        super().__init__()
        self.num_heads = num_heads
        self.lookup = nn.Embedding(vocab_size, num_units, padding_idx=0)
        self.proj = nn.ModuleList(
            nn.ModuleList(nn.Linear(num_units, num_units) for _ in range(3)) for _ in range(num_blocks)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(num_units) for _ in range(num_blocks))

    def forward(self, x):
        enc = self.lookup(x)
        enc = enc + sinusoid(x.shape[1], enc.shape[-1])
        for (wq, wk, wv), norm in zip(self.proj, self.norms):
            enc = norm(multihead_attention(enc, enc, wq, wk, wv, self.num_heads))
        return enc


with torch.random.fork_rng():
    torch.manual_seed(8)
    model = QueryEncoder().eval()


def inputs():
    x = torch.randint(1, 45, (5, 8), generator=torch.Generator().manual_seed(2))
    for i, n in enumerate([8, 3, 5, 6, 4]):
        x[i, n:] = 0
    return (x,)


expect = {"padding": "x pad=0"}
