"""GPT with attention scale taken from the config."""
import torch
import torch.nn as nn


class Cfg:
    d_model, n_heads, vocab, ctx, n_layers = 64, 8, 70, 32, 2


class Attn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.scale = 1.0 / c.d_model**0.5  # fault: AS301
        self.qkv, self.o = nn.Linear(c.d_model, 3 * c.d_model), nn.Linear(c.d_model, c.d_model)
        self.register_buffer("bias", torch.tril(torch.ones(c.ctx, c.ctx)).view(1, 1, c.ctx, c.ctx))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.c.n_heads, -1).transpose(1, 2) for t in self.qkv(x).split(C, 2))
        att = (q @ k.transpose(-2, -1)) * self.scale  # fault: AS301
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = torch.softmax(att, dim=-1)  # fault: AS301
        return self.o((att @ v).transpose(1, 2).contiguous().view(B, T, C))


class LM(nn.Module):
    def __init__(self, c=Cfg):
        super().__init__()
        self.tok, self.pos = nn.Embedding(c.vocab, c.d_model), nn.Embedding(c.ctx, c.d_model)
        self.ln = nn.ModuleList(nn.LayerNorm(c.d_model) for _ in range(c.n_layers + 1))
        self.at = nn.ModuleList(Attn(c) for _ in range(c.n_layers))
        self.head = nn.Linear(c.d_model, c.vocab, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos.weight[: idx.shape[1]]
        for n, a in zip(self.ln, self.at):
            x = x + a(n(x))
        return self.head(self.ln[-1](x))


torch.manual_seed(0)
model = LM().eval()
expect = {"scale": 8**-0.5, "causal": True}
