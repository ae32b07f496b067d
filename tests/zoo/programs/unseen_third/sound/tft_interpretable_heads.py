"""Temporal fusion transformer: heads share the values, outputs of the heads are averaged; causal."""
import torch
import torch.nn as nn


class InterpretableMultiHeadAttention(nn.Module):
    def __init__(self, n_head=4, d_model=32, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k = n_head, d_model // n_head
        self.v_layer = nn.Linear(d_model, self.d_k, bias=False)
        self.q_layers = nn.ModuleList([nn.Linear(d_model, self.d_k, bias=False) for _ in range(n_head)])
        self.k_layers = nn.ModuleList([nn.Linear(d_model, self.d_k, bias=False) for _ in range(n_head)])
        self.dropout, self.w_h = nn.Dropout(dropout), nn.Linear(self.d_k, d_model, bias=False)

    def forward(self, q, k, v, mask):
        heads, attns = [], []
        vs = self.v_layer(v)
        for i in range(self.n_head):
            s = torch.bmm(self.q_layers[i](q), self.k_layers[i](k).transpose(1, 2)) / self.d_k**0.5
            a = self.dropout(torch.softmax(s.masked_fill(mask, -1e9), dim=2))
            heads.append(torch.bmm(a, vs))
            attns.append(a)
        return self.w_h(torch.stack(heads).mean(0)), torch.stack(attns).mean(0)


class TFT(nn.Module):
    def __init__(self, feats=5, d=32):
        super().__init__()
        self.lstm, self.att = nn.LSTM(feats, d, batch_first=True), InterpretableMultiHeadAttention(d_model=d)
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, 3)

    def forward(self, x):
        h, _ = self.lstm(x)
        m = torch.triu(torch.ones(x.size(1), x.size(1), dtype=torch.bool), 1)
        y, _ = self.att(h, h, h, m)
        return self.out(self.norm(h + y))


with torch.random.fork_rng():
    torch.manual_seed(15)
    model = TFT().eval()
inputs = torch.randn(3, 16, 5, generator=torch.Generator().manual_seed(15))
expect = {"causal": True}
