"""Mistral-like layers with a window of the last tokens, the current one included, https://github.com/huggingface/transformers/issues/39408."""

from types import SimpleNamespace

import torch
from torch import nn

config = SimpleNamespace(
    vocab_size=65, hidden_size=36, num_attention_heads=3, num_hidden_layers=2, sliding_window=4
)


def local_attention(query, key, value, softmax_scale, window_size):
    """Causal attention over (b, t, h, d); window_size = (left, right), the current token not counted."""
    t = query.shape[1]
    distance = torch.arange(t)[:, None] - torch.arange(t)[None, :]
    visible = (distance <= window_size[0]) & (distance >= -window_size[1])
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * softmax_scale
    scores = scores.masked_fill(visible.logical_not(), float("-inf"))  # fault: AS210|AS306
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value)


class MistralAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (-1, self.head_dim)) for t in self.qkv(x).chunk(3, -1))
        window = (self.config.sliding_window, 0)  # fault: AS210|AS306
        y = local_attention(q, k, v, self.head_dim**-0.5, window)
        return self.o_proj(y.flatten(2))


class MistralForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.positions = nn.Embedding(40, config.hidden_size)
        self.layers = nn.ModuleList([MistralAttention(config) for _ in range(config.num_hidden_layers)])
        self.norms = nn.ModuleList([nn.RMSNorm(config.hidden_size) for _ in range(config.num_hidden_layers)])
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids) + self.positions.weight[: input_ids.size(1)]
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.lm_head(x)


with torch.random.fork_rng():
    torch.manual_seed(394)
    model = MistralForCausalLM(config).eval()
    inputs = {"input_ids": torch.randint(0, 65, (2, 13))}
expect = {"causal": True, "window": 4}
