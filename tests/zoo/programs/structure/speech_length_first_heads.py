"""Speech encoder layer over (time, batch, channel) features."""

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    """Multi-headed attention. Input and output are Time x Batch x Channel."""

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.dropout = dropout
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query) * self.scaling
        k = self.k_proj(query)
        v = self.v_proj(query)

        shape = (tgt_len, bsz, self.num_heads, self.head_dim)
        q = q.view(shape).transpose(1, 2)  # fault: AS102
        k = k.view(shape).transpose(1, 2)  # fault: AS102
        v = v.view(shape).transpose(1, 2)  # fault: AS102

        attn_weights = torch.matmul(q, k.transpose(-2, -1))
        attn_weights_float = F.softmax(attn_weights, dim=-1, dtype=torch.float32)
        attn_weights = attn_weights_float.type_as(attn_weights)
        attn_probs = F.dropout(attn_weights, p=self.dropout, training=self.training)
        attn = torch.matmul(attn_probs, v)

        attn = attn.transpose(1, 2).contiguous().view(tgt_len, bsz, embed_dim)
        attn = self.out_proj(attn)
        return attn


class SpeechEncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.self_attn = MultiheadAttention(dim, heads)
        self.self_attn_layer_norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)
        self.final_layer_norm = nn.LayerNorm(dim)

    def forward(self, x):
        residual = x
        x = self.self_attn(x)
        x = self.self_attn_layer_norm(residual + x)
        x = self.final_layer_norm(x + self.fc2(F.relu(self.fc1(x))))
        return x


expect = {"batch_axis": 1, "sequence_axis": 0}

with torch.random.fork_rng():
    torch.manual_seed(21)
    model = SpeechEncoderLayer(dim=40, heads=5).eval()


def inputs():
    g = torch.Generator().manual_seed(2)
    frames = torch.randn(13, 3, 40, generator=g)
    return frames
