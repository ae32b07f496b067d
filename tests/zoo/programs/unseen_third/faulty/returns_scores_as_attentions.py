"""Modelling code with output_attentions."""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn


@dataclass
class EncoderOutput:
    last_hidden_state: torch.Tensor
    attentions: Optional[tuple] = None


class SelfAttn(nn.Module):
    def __init__(self, d, h, p=0.1):
        super().__init__()
        self.h, self.hd = h, d // h
        self.q_lin, self.k_lin, self.v_lin, self.out_lin = (nn.Linear(d, d) for _ in range(4))
        self.dropout = nn.Dropout(p)

    def forward(self, x, output_attentions=True):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.h, self.hd).transpose(1, 2) for f in (self.q_lin, self.k_lin, self.v_lin))
        weights = torch.matmul(q / self.hd**0.5, k.transpose(2, 3))
        probs = torch.softmax(weights, dim=-1)
        ctx = self.out_lin(torch.matmul(self.dropout(probs), v).transpose(1, 2).reshape(b, n, d))
        return (ctx, weights) if output_attentions else (ctx,)  # fault: AS803


class Enc(nn.Module):
    def __init__(self, vocab=62, d=32, h=4, n=2):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.attention = nn.ModuleList(SelfAttn(d, h) for _ in range(n))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))

    def forward(self, input_ids, output_attentions=True):
        x, att = self.e(input_ids) + self.p.weight[: input_ids.size(1)], ()
        for a, l in zip(self.attention, self.ln):
            out = a(x, output_attentions)
            x = l(x + out[0])
            att += out[1:]
        return EncoderOutput(x, att)


torch.manual_seed(0)
model = Enc().eval()
