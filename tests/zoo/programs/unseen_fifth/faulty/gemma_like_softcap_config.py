"""Gemma-2 like causal LM (reduced), modelling file of an internal fork."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PretrainedConfig


class ForkConfig(PretrainedConfig):
    model_type = "fork_gemma"

    def __init__(self, vocab_size=150, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 head_dim=16, attn_logit_softcapping=5.0, query_pre_attn_scalar=16, rope_theta=10000.0, initializer_range=0.18, **kw):
        super().__init__(**kw)
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        self.num_attention_heads, self.num_key_value_heads, self.head_dim = num_attention_heads, num_key_value_heads, head_dim
        self.attn_logit_softcapping = attn_logit_softcapping
        self.query_pre_attn_scalar = query_pre_attn_scalar
        self.rope_theta = rope_theta
        self.initializer_range = initializer_range


def apply_rope(x, theta):
    t, d = x.shape[-2], x.shape[-1]
    inv = 1.0 / theta ** (torch.arange(0, d, 2, device=x.device) / d)
    f = torch.outer(torch.arange(t, device=x.device).float(), inv)
    cos, sin = f.cos().repeat(1, 2), f.sin().repeat(1, 2)
    x1, x2 = x.chunk(2, -1)
    return x * cos + torch.cat([-x2, x1], -1) * sin


class ForkAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        hd = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * hd, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * hd, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * hd, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * hd, config.hidden_size, bias=False)
        self.scaling = config.query_pre_attn_scalar ** -0.5
        self.attn_logit_softcapping = self.config.attn_logit_softcapping

    def forward(self, x):
        b, t, _ = x.shape
        q = apply_rope(self.q_proj(x).view(b, t, -1, self.config.head_dim).transpose(1, 2), self.config.rope_theta)
        k = apply_rope(self.k_proj(x).view(b, t, -1, self.config.head_dim).transpose(1, 2), self.config.rope_theta)
        v = self.v_proj(x).view(b, t, -1, self.config.head_dim).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scaling, enable_gqa=True)  # fault: AS306
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class ForkForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(ForkAttention(config, i) for i in range(config.num_hidden_layers))
        self.norms = nn.ModuleList(nn.RMSNorm(config.hidden_size) for _ in range(config.num_hidden_layers))
        for m in self.layers.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=config.initializer_range)

    def forward(self, input_ids):
        h = self.embed_tokens(input_ids) * self.config.hidden_size ** 0.5
        for n, l in zip(self.norms, self.layers):
            h = h + l(n(h))
        return h @ self.embed_tokens.weight.t()


with torch.random.fork_rng():
    torch.manual_seed(62)
    model = ForkForCausalLM(ForkConfig()).eval()
