"""Speech layer in training, weights returned for the alignment loss."""

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    """Multi-headed attention. Input and output are Time x Batch x Channel.

    Returns the output and, per head, the attention weights (heads, batch, tgt_len, src_len).
    """

    def __init__(self, embed_dim, num_heads, dropout=0.25):
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

    def forward(self, query, key_padding_mask=None):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query) * self.scaling
        k = self.k_proj(query)
        v = self.v_proj(query)

        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        src_len = k.size(1)

        attn_weights = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            attn_weights = attn_weights.view(bsz, self.num_heads, tgt_len, src_len)
            attn_weights = attn_weights.masked_fill(
                key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf")
            )
            attn_weights = attn_weights.view(bsz * self.num_heads, tgt_len, src_len)
        attn_weights_float = F.softmax(attn_weights, dim=-1, dtype=torch.float32)
        attn_weights = attn_weights_float.type_as(attn_weights)
        attn_probs = F.dropout(attn_weights, p=self.dropout, training=self.training)
        attn = torch.bmm(attn_probs, v)

        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        attn = self.out_proj(attn)
        attn_weights = attn_probs.view(bsz, self.num_heads, tgt_len, src_len)  # fault: AS803
        return attn, attn_weights.transpose(1, 0)  # fault: AS803


class SpeechEncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.self_attn = MultiheadAttention(dim, heads)
        self.self_attn_layer_norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)
        self.final_layer_norm = nn.LayerNorm(dim)

    def forward(self, x, encoder_padding_mask=None):
        residual = x
        x, weights = self.self_attn(x, encoder_padding_mask)
        x = self.self_attn_layer_norm(residual + x)
        x = self.final_layer_norm(x + self.fc2(F.relu(self.fc1(x))))
        return x, weights


expect = {"batch_axis": 1, "sequence_axis": 0, "padding": "encoder_padding_mask drop"}

with torch.random.fork_rng():
    torch.manual_seed(21)
    model = SpeechEncoderLayer(dim=40, heads=5).train()


def inputs():
    g = torch.Generator().manual_seed(2)
    frames = torch.randn(13, 3, 40, generator=g)
    lengths = torch.tensor([13, 9, 10])
    padding = torch.arange(13)[None, :] >= lengths[:, None]
    return {"x": frames, "encoder_padding_mask": padding}
