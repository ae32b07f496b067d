"""BERT from scratch, following the paper and the HF source."""
import math
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class BertConf:
    vocab_size: int = 99
    hidden_size: int = 32
    num_attention_heads: int = 4
    num_hidden_layers: int = 2
    intermediate_size: int = 48
    max_position_embeddings: int = 40
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12


@dataclass
class BertOutput:
    last_hidden_state: torch.Tensor
    pooler_output: torch.Tensor
    attentions: list = field(default_factory=list)


class BertEmbeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.word = nn.Embedding(c.vocab_size, c.hidden_size, padding_idx=0)
        self.position = nn.Embedding(c.max_position_embeddings, c.hidden_size)
        self.segment = nn.Embedding(c.type_vocab_size, c.hidden_size)
        self.LayerNorm = nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)

    def forward(self, ids, segs):
        pos = torch.arange(ids.size(1), device=ids.device)[None]
        return self.LayerNorm(self.word(ids) + self.position(pos) + self.segment(segs))


class BertSelfAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.nh, self.hd = c.num_attention_heads, c.hidden_size // c.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(c.hidden_size, c.hidden_size) for _ in range(3))
        self.dense = nn.Linear(c.hidden_size, c.hidden_size)
        self.LayerNorm = nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)

    def transpose_for_scores(self, x):
        return x.view(*x.size()[:-1], self.nh, self.hd).permute(0, 2, 1, 3)

    def forward(self, h, extended_mask):
        q, k, v = map(self.transpose_for_scores, (self.query(h), self.key(h), self.value(h)))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.hd)
        scores = scores + extended_mask  # fault: AS205|AS202
        probs = nn.Softmax(dim=-1)(scores)
        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return self.LayerNorm(h + self.dense(ctx.view(*h.shape))), probs


class BertModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embeddings = BertEmbeddings(c)
        self.layer = nn.ModuleList(BertSelfAttention(c) for _ in range(c.num_hidden_layers))
        self.inter = nn.ModuleList(nn.Linear(c.hidden_size, c.intermediate_size) for _ in range(c.num_hidden_layers))
        self.outer = nn.ModuleList(nn.Linear(c.intermediate_size, c.hidden_size) for _ in range(c.num_hidden_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps) for _ in range(c.num_hidden_layers))
        self.pooler = nn.Linear(c.hidden_size, c.hidden_size)

    def forward(self, input_ids, token_type_ids=None, attention_mask=None):
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        ext = attention_mask.unsqueeze(1).unsqueeze(2).to(dtype=self.pooler.weight.dtype)
        ext = ext * -10000.0  # fault: AS205|AS202
        h, att = self.embeddings(input_ids, token_type_ids), []
        for a, i, o, n in zip(self.layer, self.inter, self.outer, self.norms):
            h, p = a(h, ext)
            att.append(p)
            h = n(h + o(nn.functional.gelu(i(h))))
        return BertOutput(h, torch.tanh(self.pooler(h[:, 0])), att)


torch.manual_seed(42)
model = BertModel(BertConf()).eval()
_am = torch.tensor([[1] * 10, [1] * 6 + [0] * 4, [1] * 8 + [0] * 2])
inputs = {"input_ids": torch.randint(1, 99, (3, 10), generator=torch.Generator().manual_seed(1)) * _am, "attention_mask": _am}
expect = {"padding": "attention_mask keep"}
