"""Transformer-XL: relative positions with the shift trick, and a segment memory from the last call."""

import torch
import torch.nn.functional as F
from torch import nn


def rel_shift(x):
    b, h, q, k = x.shape
    x = torch.cat([x.new_zeros(b, h, q, 1), x], dim=3).view(b, h, k + 1, q)
    return x[:, :, 1:].view(b, h, q, k)


class RelPartialLearnableMultiHeadAttn(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head, self.d_head = n_head, d_model // n_head
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(n_head, self.d_head) * 0.1)
        self.r_r_bias = nn.Parameter(torch.randn(n_head, self.d_head) * 0.1)
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, w, r, mem):
        cat = w if mem is None else torch.cat([mem, w], dim=1)
        b, qlen, klen = w.size(0), w.size(1), cat.size(1)
        q = self.q_net(w).view(b, qlen, self.n_head, self.d_head)
        k, v = self.kv_net(cat).view(b, klen, 2, self.n_head, self.d_head).unbind(2)
        r = self.r_net(r).view(klen, self.n_head, self.d_head)
        AC = torch.einsum("bind,bjnd->bnij", q + self.r_w_bias, k)
        BD = rel_shift(torch.einsum("bind,jnd->bnij", q + self.r_r_bias, r))
        attn_score = (AC + BD) * self.d_head**-0.5
        future = torch.ones(qlen, klen, dtype=torch.bool, device=w.device).triu(1 + klen - qlen)
        attn_prob = F.softmax(attn_score.masked_fill(future, -1e30), dim=-1)
        vec = torch.einsum("bnij,bjnd->bind", attn_prob, v).reshape(b, qlen, -1)
        return self.layer_norm(w + self.o_net(vec))


class TransformerXL(nn.Module):
    def __init__(self, vocab=59, d=36, n_head=3, layers=2, mem_len=20):
        super().__init__()
        self.word_emb = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(RelPartialLearnableMultiHeadAttn(d, n_head) for _ in range(layers))
        self.mem_len = mem_len
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, d, 2.0) / d)))
        self.out = nn.Linear(d, vocab)

    def forward(self, data, mems=None):
        x = self.word_emb(data)
        klen = x.size(1) + (0 if mems is None else mems[0].size(1))
        pos_seq = torch.arange(klen - 1, -1, -1.0, device=x.device)
        sinusoid = torch.outer(pos_seq, self.inv_freq)
        r = torch.cat([sinusoid.sin(), sinusoid.cos()], dim=-1)
        new_mems = []
        for i, layer in enumerate(self.layers):
            mem = None if mems is None else mems[i]
            hist = x if mem is None else torch.cat([mem, x], dim=1)
            new_mems.append(hist[:, -self.mem_len :].detach())
            x = layer(x, r, mem)
        return self.out(x), new_mems


with torch.random.fork_rng():
    torch.manual_seed(45)
    model = TransformerXL().eval()

inputs = {"data": torch.randint(0, 59, (2, 10), generator=torch.Generator().manual_seed(46))}
expect = {"causal": True, "cache": "mems"}
