"""Transformer-XL like segment memory."""
import torch
from torch import nn


class SegmentAttention(nn.Module):
    def __init__(self, d_model=36, n_head=3):
        super().__init__()
        self.n_head, self.d_head = n_head, d_model // n_head
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, h, mems=None):
        qlen, bsz = h.size(0), h.size(1)
        c = h if mems is None else torch.cat([mems, h], 0)
        head_q = self.q_net(h).view(qlen, bsz, self.n_head, self.d_head)
        head_k, head_v = torch.chunk(self.kv_net(c), 2, -1)
        klen = c.size(0)
        head_k = head_k.view(klen, bsz, self.n_head, self.d_head)
        head_v = head_v.view(klen, bsz, self.n_head, self.d_head)
        score = torch.einsum("ibnd,jbnd->ijbn", head_q, head_k) * self.d_head**-0.5
        m = torch.triu(torch.ones(qlen, klen), diagonal=1 + klen - qlen).bool()
        score = score.masked_fill(m[:, :, None, None], -float("inf"))
        prob = torch.softmax(score, dim=1)
        vec = torch.einsum("ijbn,jbnd->ibnd", prob, head_v)
        return self.layer_norm(h + self.o_net(vec.reshape(qlen, bsz, -1)))


class XL(nn.Module):
    def __init__(self, ntoken=75, d_model=36, n_layer=2):
        super().__init__()
        self.word_emb, self.pos_emb = nn.Embedding(ntoken, d_model), nn.Embedding(64, d_model)
        self.layers = nn.ModuleList([SegmentAttention(d_model) for _ in range(n_layer)])
        self.out = nn.Linear(d_model, ntoken)

    def forward(self, data):
        """data: (length, batch)"""
        h = self.word_emb(data) + self.pos_emb(torch.arange(data.size(0)))[:, None]
        half = data.size(0) // 2
        mems = [None] * len(self.layers)
        outs = []
        for seg in (h[:half], h[half:]):
            new = []
            for i, layer in enumerate(self.layers):
                new.append(seg.detach())
                seg = layer(seg, mems[i])
            mems = new
            outs.append(seg)
        return self.out(torch.cat(outs, 0))


torch.manual_seed(14)
model = XL()
inputs = {"data": torch.randint(0, 75, (10, 3), generator=torch.Generator().manual_seed(0))}
expect = {"causal": True, "batch_axis": 1, "sequence_axis": 0}
