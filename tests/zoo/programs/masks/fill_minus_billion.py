"""Code completion model: manual attention with an additive causal bias."""

import torch
import torch.nn as nn

NEG = -1e9


class MaskedAttention(nn.Module):
    def __init__(self, width, n_heads, max_len):
        super().__init__()
        self.n_heads = n_heads
        self.proj_in = nn.Linear(width, 3 * width)
        self.proj_out = nn.Linear(width, width)
        self.register_buffer("causal_bias", NEG * torch.ones(max_len, max_len).triu(1))

    def forward(self, x):
        b, l, w = x.shape
        q, k, v = self.proj_in(x).reshape(b, l, self.n_heads, 3, w // self.n_heads).unbind(3)
        s = torch.einsum("blhd,bmhd->bhlm", q, k) / (w // self.n_heads) ** 0.5
        s = s + self.causal_bias[:l, :l]
        return self.proj_out(torch.einsum("bhlm,bmhd->blhd", s.softmax(-1), v).reshape(b, l, w))


class CodeModel(nn.Module):
    def __init__(self, vocab=72, width=42, n_heads=3, n_layers=2, max_len=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.where = nn.Embedding(max_len, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "ln_a": nn.LayerNorm(width),
                    "attn": MaskedAttention(width, n_heads, max_len),
                    "ln_b": nn.LayerNorm(width),
                    "mlp": nn.Sequential(nn.Linear(width, 84), nn.GELU(), nn.Linear(84, width)),
                }
            )
            for _ in range(n_layers)
        )
        self.unembed = nn.Linear(width, vocab)

    def forward(self, tokens):
        x = self.embed(tokens) + self.where(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = x + layer["attn"](layer["ln_a"](x))
            x = x + layer["mlp"](layer["ln_b"](x))
        return self.unembed(x)


with torch.random.fork_rng():
    torch.manual_seed(24)
    model = CodeModel().eval()

inputs = {"tokens": torch.randint(0, 72, (2, 16), generator=torch.Generator().manual_seed(24))}
expect = {"causal": True}
