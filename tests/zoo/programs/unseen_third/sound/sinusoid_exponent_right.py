"""Transformer encoder, Aladdin/hyunwoongko style position table."""
import torch
from torch import nn


class PositionalEncoding(nn.Module):
    """compute sinusoid encoding."""

    def __init__(self, d_model, max_len, device="cpu"):
        super().__init__()
        self.encoding = torch.zeros(max_len, d_model, device=device)
        self.encoding.requires_grad = False
        pos = torch.arange(0, max_len, device=device).float().unsqueeze(dim=1)
        _2i = torch.arange(0, d_model, step=2, device=device).float()
        self.encoding[:, 0::2] = torch.sin(pos / (10000 ** (_2i / d_model)))
        self.encoding[:, 1::2] = torch.cos(pos / (10000 ** (_2i / d_model)))

    def forward(self, x):
        return self.encoding[: x.size(1), :]


class Encoder(nn.Module):
    def __init__(self, enc_voc_size=58, max_len=80, d_model=32, n_head=4):
        super().__init__()
        self.tok_emb = nn.Embedding(enc_voc_size, d_model, padding_idx=1)
        self.pos_emb = PositionalEncoding(d_model, max_len)
        self.n_head = n_head
        self.w_q, self.w_k, self.w_v, self.w_concat = (nn.Linear(d_model, d_model) for _ in range(4))
        self.norm = nn.LayerNorm(d_model)

    def split(self, t):
        b, l, d = t.size()
        return t.view(b, l, self.n_head, d // self.n_head).transpose(1, 2)

    def forward(self, x):
        h = self.tok_emb(x) + self.pos_emb(x)
        q, k, v = self.split(self.w_q(h)), self.split(self.w_k(h)), self.split(self.w_v(h))
        a = torch.softmax(q @ k.transpose(2, 3) / q.size(-1) ** 0.5, dim=-1)
        o = self.w_concat((a @ v).transpose(1, 2).contiguous().view(h.shape))
        return self.norm(h + o)


torch.manual_seed(0)
model = Encoder().eval()
inputs = torch.randint(2, 58, (2, 12), generator=torch.Generator().manual_seed(0))
