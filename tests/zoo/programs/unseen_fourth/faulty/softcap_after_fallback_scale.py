"""Gemma-like attention with capped logits; eager path only."""
from types import SimpleNamespace
import torch
import torch.nn as nn

config = SimpleNamespace(hidden_size=48, num_attention_heads=3, head_dim=16, attn_logit_softcapping=5.0, query_pre_attn_scalar=16, vocab_size=60, num_hidden_layers=2)


class CappedAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.scaling = config.query_pre_attn_scalar ** -0.5
        self.qkv = nn.Linear(config.hidden_size, 3 * config.num_attention_heads * config.head_dim, bias=False)
        self.o = nn.Linear(config.num_attention_heads * config.head_dim, config.hidden_size, bias=False)

    def forward(self, x):
        c = self.config
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, c.num_attention_heads, c.head_dim).permute(2, 0, 3, 1, 4)
        cap = c.attn_logit_softcapping
        w = torch.tanh(q @ k.transpose(2, 3) / cap) * cap * self.scaling  # fault: AS301
        w = w + torch.full((t, t), float("-inf"), device=x.device).triu(1)
        return self.o((w.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))


class CappedLM(nn.Module):
    def __init__(self, config=config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.pos = nn.Embedding(48, config.hidden_size)
        self.layers = nn.ModuleList([CappedAttention(config) for _ in range(config.num_hidden_layers)])
        self.norms = nn.ModuleList([nn.RMSNorm(config.hidden_size) for _ in range(config.num_hidden_layers)])
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.pos.weight[:input_ids.size(1)]
        for n, l in zip(self.norms, self.layers):
            x = x + l(n(x))
        return self.lm_head(x)


def model():
    torch.manual_seed(2)
    m = CappedLM()
    for l in m.layers:
        nn.init.normal_(l.qkv.weight, std=.35)
    return m.eval()


expect = {"causal": True, "scale": 0.25, "softcap": 5.0}
