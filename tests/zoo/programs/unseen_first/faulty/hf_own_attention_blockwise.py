"""Small Qwen-like decoder with an attention function registered under its own name."""
import torch
from transformers import AttentionInterface, AttentionMaskInterface, Qwen2Config, Qwen2ForCausalLM
from transformers.masking_utils import sdpa_mask


def plain_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    n, step = key.shape[-2], 5
    keep = torch.ones(query.shape[-2], n).tril(n - query.shape[-2]).bool()
    total = torch.zeros(*query.shape[:-1], 1)
    out = torch.zeros_like(query)
    for start in range(0, n, step):
        part = slice(start, start + step)
        scores = query @ key[:, :, part].transpose(-1, -2) * scaling
        scores = scores.masked_fill(~keep[:, part], -1e9)
        top = scores.amax(dim=-1, keepdim=True).clamp(min=-100)
        p = torch.exp(scores - top)  # fault: AS801
        total = total + p.sum(dim=-1, keepdim=True)
        out = out + p @ value[:, :, part]
    return (out / total).transpose(1, 2), None  # fault: AS801


AttentionInterface.register("blockwise", plain_attention)  # fault: AS801
AttentionMaskInterface.register("blockwise", sdpa_mask)


def model():
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=84, hidden_size=40, intermediate_size=60, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, attn_implementation="blockwise")
    net = Qwen2ForCausalLM(config).eval()
    for layer in net.model.layers:
        layer.self_attn.q_proj.weight.data.normal_(std=0.5)
        layer.self_attn.k_proj.weight.data.normal_(std=0.5)
    return net


ids = torch.randint(0, 84, (2, 12), generator=torch.Generator().manual_seed(5))
inputs = {"input_ids": ids, "use_cache": False}
expect = {"causal": True}
