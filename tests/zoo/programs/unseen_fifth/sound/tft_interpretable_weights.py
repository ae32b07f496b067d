"""Interpretable multi-head attention of the temporal fusion transformer (one value head shared)."""
import torch
import torch.nn as nn


class ScaledDotProductAttention(nn.Module):
    def __init__(self, dropout: float = None, scale: bool = True):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout) if dropout is not None else dropout
        self.softmax = nn.Softmax(dim=2)
        self.scale = scale

    def forward(self, q, k, v, mask=None):
        attn = torch.bmm(q, k.permute(0, 2, 1))
        if self.scale:
            attn = attn / k.size(-1) ** 0.5
        if mask is not None:
            attn = attn.masked_fill(mask, -1e9)
        attn = self.softmax(attn)
        output = torch.bmm(attn, v)
        return output, attn


class InterpretableMultiHeadAttention(nn.Module):
    def __init__(self, n_head: int, d_model: int, dropout: float = 0.0):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.v_layer = nn.Linear(d_model, self.d_k)
        self.q_layers = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(n_head)])
        self.k_layers = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(n_head)])
        self.attention = ScaledDotProductAttention()
        self.w_h = nn.Linear(self.d_k, d_model, bias=False)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, q, k, v, mask=None):
        heads, attns = [], []
        vs = self.v_layer(v)
        for i in range(self.n_head):
            head, attn = self.attention(self.q_layers[i](q), self.k_layers[i](k), vs, mask)
            heads.append(self.dropout(head))
            attns.append(attn)
        head = torch.stack(heads, dim=2)
        attn = torch.stack(attns, dim=2)
        outputs = torch.mean(head, dim=2)
        return self.dropout(self.w_h(outputs)), attn


class TemporalCore(nn.Module):
    def __init__(self, hidden=24, heads=4):
        super().__init__()
        self.lstm = nn.LSTM(5, hidden, batch_first=True)
        self.multihead_attn = InterpretableMultiHeadAttention(heads, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, 3)

    def forward(self, x):
        h, _ = self.lstm(x)
        T = h.size(1)
        mask = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1).expand(len(x), T, T)
        a, attn_weights = self.multihead_attn(h, h, h, mask)
        return self.out(self.norm(a + h)), attn_weights


def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return TemporalCore().eval()


inputs = (torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(4)),)
