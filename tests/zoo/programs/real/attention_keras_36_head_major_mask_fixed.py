"""Multi-head attention with heads folded into the batch, https://github.com/lsdefine/attention-is-all-you-need-keras/issues/36."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_head, d_model):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.qs_layer = nn.Linear(d_model, d_model, bias=False)
        self.ks_layer = nn.Linear(d_model, d_model, bias=False)
        self.vs_layer = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model)

    def fold(self, x):
        b, t, _ = x.shape
        x = x.reshape(b, t, self.n_head, self.d_k)
        return x.permute(0, 2, 1, 3).reshape(-1, t, self.d_k)

    def unfold(self, x, b):
        t = x.shape[1]
        x = x.reshape(b, self.n_head, t, self.d_k)
        return x.permute(0, 2, 1, 3).reshape(b, t, -1)

    def forward(self, q, k, v, mask):
        b = q.shape[0]
        qs, ks, vs = self.fold(self.qs_layer(q)), self.fold(self.ks_layer(k)), self.fold(self.vs_layer(v))
        mask = mask.repeat_interleave(self.n_head, dim=0)
        attn = torch.bmm(qs, ks.transpose(1, 2)) / self.d_k**0.5
        attn = attn + (-1e10) * (1 - mask)
        heads = torch.bmm(attn.softmax(-1), vs)
        return self.w_o(self.unfold(heads, b))


class Encoder(nn.Module):
    def __init__(self, tokens=64, d_model=36, n_head=3):
        super().__init__()
        self.emb = nn.Embedding(tokens, d_model)
        self.pos = nn.Embedding(30, d_model)
        self.self_att = MultiHeadAttention(n_head, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, src_seq):
        mask = (src_seq != 0).float()[:, None, :].expand(-1, src_seq.shape[1], -1)
        x = self.emb(src_seq) + self.pos(torch.arange(src_seq.shape[1]))
        return self.norm(x + self.self_att(x, x, x, mask))


with torch.random.fork_rng():
    torch.manual_seed(36)
    model = Encoder().eval()
    seq = torch.randint(1, 64, (4, 10))
    inputs = {"src_seq": seq.masked_fill(torch.arange(10) >= torch.tensor([[10], [4], [7], [6]]), 0)}
expect = {"padding": "src_seq pad=0"}
