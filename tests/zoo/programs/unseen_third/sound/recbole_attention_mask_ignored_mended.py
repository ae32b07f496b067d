"""RecBole-style encoder: get_attention_mask builds the extended mask that every layer receives."""
import copy
import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_heads, hidden_size, hidden_dropout_prob, attn_dropout_prob, layer_norm_eps):
        super().__init__()
        self.num_attention_heads = n_heads
        self.attention_head_size = int(hidden_size / n_heads)
        self.sqrt_attention_head_size = math.sqrt(self.attention_head_size)
        self.query, self.key, self.value = (nn.Linear(hidden_size, hidden_size) for _ in range(3))
        self.softmax = nn.Softmax(dim=-1)
        self.attn_dropout = nn.Dropout(attn_dropout_prob)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.out_dropout = nn.Dropout(hidden_dropout_prob)

    def transpose_for_scores(self, x):
        return x.view(*x.size()[:-1], self.num_attention_heads, self.attention_head_size)

    def forward(self, input_tensor, attention_mask):
        query_layer = self.transpose_for_scores(self.query(input_tensor)).permute(0, 2, 1, 3)
        key_layer = self.transpose_for_scores(self.key(input_tensor)).permute(0, 2, 3, 1)
        value_layer = self.transpose_for_scores(self.value(input_tensor)).permute(0, 2, 1, 3)
        attention_scores = torch.matmul(query_layer, key_layer) / self.sqrt_attention_head_size
        # attention_scores: [batch_size heads seq_len seq_len]
        attention_probs = self.softmax(attention_scores + attention_mask)
        attention_probs = self.attn_dropout(attention_probs)
        context = torch.matmul(attention_probs, value_layer).permute(0, 2, 1, 3).contiguous()
        context = context.view(*context.size()[:-2], -1)
        return self.LayerNorm(self.out_dropout(self.dense(context)) + input_tensor)


class TransformerEncoder(nn.Module):
    def __init__(self, n_layers, **kw):
        super().__init__()
        layer = MultiHeadAttention(**kw)
        self.layer = nn.ModuleList([copy.deepcopy(layer) for _ in range(n_layers)])

    def forward(self, x, mask):
        for l in self.layer:
            x = l(x, mask)
        return x


class BERT4Rec(nn.Module):
    def __init__(self):
        super().__init__()
        self.item_embedding = nn.Embedding(41, 28, padding_idx=0)
        self.position_embedding = nn.Embedding(20, 28)
        self.trm_encoder = TransformerEncoder(2, n_heads=2, hidden_size=28, hidden_dropout_prob=0.1, attn_dropout_prob=0.1, layer_norm_eps=1e-12)

    def get_attention_mask(self, item_seq):
        m = (item_seq != 0)[:, None, None]
        return torch.where(m, 0.0, -10000.0)

    def forward(self, item_seq):
        pos = torch.arange(item_seq.size(1), device=item_seq.device).unsqueeze(0).expand_as(item_seq)
        x = self.item_embedding(item_seq) + self.position_embedding(pos)
        return self.trm_encoder(x, self.get_attention_mask(item_seq))


with torch.random.fork_rng():
    torch.manual_seed(2020)
    model = BERT4Rec().eval()
_seq = torch.randint(1, 41, (4, 16), generator=torch.Generator().manual_seed(20))
_seq[0, 10:] = 0
_seq[3, 13:] = 0
inputs = (_seq,)
