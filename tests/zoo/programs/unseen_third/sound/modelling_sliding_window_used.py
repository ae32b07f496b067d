"""Modelling file of our in-house LLM: configuration + attention + model."""
import torch
from torch import nn


class FalconetConfig:
    model_type = "falconet"

    def __init__(self, vocab_size=70, hidden_size=40, num_hidden_layers=2, num_attention_heads=5, sliding_window=6, max_position_embeddings=64, **kwargs):
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.num_hidden_layers, self.num_attention_heads = num_hidden_layers, num_attention_heads
        self.sliding_window = sliding_window
        self.max_position_embeddings = max_position_embeddings


def build_mask(n, past, dtype, sliding_window=None):
    q = torch.arange(past, past + n)[:, None]
    k = torch.arange(past + n)[None]
    allowed = k <= q
    if sliding_window is not None:
        allowed &= q - k < sliding_window
    return torch.zeros(n, past + n, dtype=dtype).masked_fill_(~allowed, torch.finfo(dtype).min)


class FalconetAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.h = config.num_attention_heads
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x, attention_mask):
        b, n, d = x.shape
        q, k, v = self.query_key_value(x).view(b, n, self.h, 3, d // self.h).unbind(3)
        s = torch.einsum("bqhd,bkhd->bhqk", q, k).div((d // self.h) ** 0.5) + attention_mask
        p = torch.nn.functional.softmax(s, dim=-1)
        return self.dense(torch.einsum("bhqk,bkhd->bqhd", p, v).reshape(b, n, d))


class FalconetModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"ln": nn.LayerNorm(config.hidden_size), "attn": FalconetAttention(config),
                           "ln2": nn.LayerNorm(config.hidden_size), "up": nn.Linear(config.hidden_size, 80), "down": nn.Linear(80, config.hidden_size)})
            for _ in range(config.num_hidden_layers))
        self.ln_f = nn.LayerNorm(config.hidden_size)

    def forward(self, input_ids):
        n = input_ids.shape[1]
        x = self.wte(input_ids) + self.wpe(torch.arange(n))
        mask = build_mask(n, 0, x.dtype, self.config.sliding_window)
        for l in self.layers:
            x = x + l["attn"](l["ln"](x), mask)
            x = x + l["down"](torch.nn.functional.silu(l["up"](l["ln2"](x))))
        return self.ln_f(x) @ self.wte.weight.t()


torch.manual_seed(21)
model = FalconetModel(FalconetConfig()).eval()
inputs = {"input_ids": torch.randint(0, 70, (2, 15), generator=torch.Generator().manual_seed(2))}
