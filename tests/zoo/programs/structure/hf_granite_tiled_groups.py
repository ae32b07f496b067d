"""Granite with grouped heads expanded by hand."""

import torch
import torch.nn.functional as F
from transformers import GraniteConfig, GraniteForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def compact_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    groups = query.shape[1] // key.shape[1]
    key = key.repeat(1, groups, 1, 1)  # fault: AS104
    value = value.repeat(1, groups, 1, 1)  # fault: AS104
    out = F.scaled_dot_product_attention(query, key, value, is_causal=query.shape[2] > 1, scale=scaling)
    return out.transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register("by_hand", compact_attention)


def model():
    config = GraniteConfig(
        vocab_size=48,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attention_multiplier=0.125,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    config._attn_implementation = "by_hand"
    with torch.random.fork_rng():
        torch.manual_seed(300)
        net = GraniteForCausalLM(config)
        for name, parameter in net.named_parameters():
            if "proj" in name:
                torch.nn.init.normal_(parameter, std=0.2)
        return net.eval()


def inputs():
    ids = torch.randint(3, 48, (2, 12), generator=torch.Generator().manual_seed(301))
    return {"input_ids": ids, "use_cache": False}
