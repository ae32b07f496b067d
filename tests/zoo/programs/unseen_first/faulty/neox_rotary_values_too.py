"""GPT-NeoX-like block: parallel residual, rotary on a quarter of each head, fused per-head qkv."""
import torch
from torch import nn


class NeoxishConfig:
    hidden_size = 64
    num_attention_heads = 4
    rotary_pct = 0.25
    rotary_emb_base = 1000
    vocab_size = 79
    num_hidden_layers = 2


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.head_size = config.hidden_size // self.heads
        self.rotary_ndims = int(self.head_size * config.rotary_pct)
        self.base = config.rotary_emb_base
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def rotary(self, x):
        n, d = x.shape[-2], self.rotary_ndims
        inv = self.base ** -(torch.arange(0, d, 2) / d)
        emb = torch.outer(torch.arange(n).float(), inv).repeat(1, 2)
        rot, rest = x[..., :d], x[..., d:]
        return torch.cat((rot * emb.cos() + rotate_half(rot) * emb.sin(), rest), dim=-1)

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.query_key_value(x).view(b, n, self.heads, 3 * self.head_size).transpose(1, 2)
        q, k, v = self.rotary(qkv).chunk(3, dim=-1)  # fault: AS503
        att = q @ k.transpose(-1, -2) / self.head_size ** 0.5
        att = torch.masked_fill(att, torch.ones(n, n).triu(1).bool(), -1e30)
        att = nn.functional.softmax(att, -1)
        return self.dense((att @ v).transpose(1, 2).reshape(b, n, -1))


class Neoxish(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        e = config.hidden_size
        self.embed_in = nn.Embedding(config.vocab_size, e)
        self.attention = nn.ModuleList(Attention(config) for _ in range(config.num_hidden_layers))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(e, 90), nn.GELU(), nn.Linear(90, e)) for _ in range(config.num_hidden_layers))
        self.ln1 = nn.ModuleList(nn.LayerNorm(e) for _ in range(config.num_hidden_layers))
        self.ln2 = nn.ModuleList(nn.LayerNorm(e) for _ in range(config.num_hidden_layers))
        self.embed_out = nn.Linear(e, config.vocab_size, bias=False)

    def forward(self, input_ids):
        x = self.embed_in(input_ids)
        for ln1, attention, ln2, mlp in zip(self.ln1, self.attention, self.ln2, self.mlp):
            x = x + attention(ln1(x)) + mlp(ln2(x))
        return self.embed_out(x)


torch.manual_seed(50)
model = Neoxish(NeoxishConfig()).eval()
inputs = torch.randint(0, 79, (3, 18))
expect = {"causal": True}
