"""Small Qwen-like decoder with an attention function registered under its own name."""
import torch
from transformers import AttentionInterface, AttentionMaskInterface, Qwen2Config, Qwen2ForCausalLM
from transformers.masking_utils import sdpa_mask


def plain_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    scores = query @ key.transpose(-1, -2) * scaling
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask[..., : key.shape[-2]], float("-inf"))
    elif query.shape[2] > 1:
        scores = scores + torch.full(scores.shape[-2:], float("-inf")).triu(1)
    weights = scores.softmax(dim=-1)
    return (weights @ value).transpose(1, 2), weights


AttentionInterface.register("plain", plain_attention)
AttentionMaskInterface.register("plain", sdpa_mask)


def model():
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=84, hidden_size=40, intermediate_size=60, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, attn_implementation="plain")
    return Qwen2ForCausalLM(config).eval()


ids = torch.randint(0, 84, (2, 12), generator=torch.Generator().manual_seed(5))
inputs = {"input_ids": ids, "use_cache": False}
expect = {"causal": True}
