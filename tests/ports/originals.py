"""The originals, small, with weights that make every part of the computation matter.

Fresh models have biases of zero, norms of one, and weights so small that attention is uniform:
many a fault would change nothing. Here every parameter has values of its own.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

WIDTH, HEADS, LENGTH, VOCABULARY = 32, 4, 9, 61
M = TypeVar("M", bound=nn.Module)


def stirred(model: M, *, small_embeddings: bool = False, seed: int = 7) -> M:
    """Give every parameter values that matter, the same every time, and return the model."""
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if id(parameter) in embeddings:
                parameter.copy_(noise * (0.02 if small_embeddings else 0.5))
            elif parameter.ndim > 1:
                parameter.copy_(noise * 1.2 * parameter.shape[-1] ** -0.5)
            elif name.endswith("bias") or "sink" in name:
                parameter.copy_(noise * 0.3)
            else:
                parameter.add_(noise * 0.1)
    return model.eval()


def computed(config: Any, by: str = "eager") -> Any:
    """Have the attention of a model computed by a function of the library's own."""
    config._attn_implementation = by
    return config


def token_ids() -> Tensor:
    """Token ids ``(2, LENGTH)``."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCABULARY, (2, LENGTH), generator=generator)


def padded(*, left: bool = False) -> dict[str, Any]:
    """Token ids, the second sample three tokens short, and the mask that says so."""
    keep = torch.ones(2, LENGTH, dtype=torch.long)
    keep[1, slice(3) if left else slice(-3, None)] = 0
    return {"input_ids": token_ids(), "attention_mask": keep}


def hidden(batch: int = 2, length: int = LENGTH, width: int = WIDTH, seed: int = 3) -> Tensor:
    """Hidden states ``(batch, length, width)``."""
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(seed))


def llama(layers: int = 2, *, small_embeddings: bool = False, eps: float = 1e-6) -> Any:
    """Return Llama with two kv heads and a rotary base of its own."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        rms_norm_eps=eps,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )
    return stirred(LlamaForCausalLM(computed(config)), small_embeddings=small_embeddings)


def gpt2(layers: int = 2, attention: str = "sdpa") -> Any:
    """Return GPT-2, whose weights lie (in, out) and whose head is its embedding."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=16,
        n_embd=WIDTH,
        n_layer=layers,
        n_head=HEADS,
        bos_token_id=0,
        eos_token_id=1,
    )
    return stirred(GPT2LMHeadModel(computed(config, attention)))


def bert(layers: int = 2, *, small_embeddings: bool = False) -> Any:
    """Return BERT without its pooler."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        intermediate_size=48,
        max_position_embeddings=16,
    )
    model = BertModel(computed(config), add_pooling_layer=False)
    return stirred(model, small_embeddings=small_embeddings)


def t5(layers: int = 2) -> Any:
    """Return the encoder of T5, whose scores are not scaled."""
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=8,
        d_ff=48,
        num_layers=layers,
        num_heads=HEADS,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
    )
    return stirred(T5EncoderModel(config))


def mistral(layers: int = 2, window: int = 4) -> Any:
    """Return Mistral with a window shorter than the sequence."""
    from transformers import MistralConfig, MistralModel

    config = MistralConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        sliding_window=window,
    )
    return stirred(MistralModel(computed(config)))


def gemma2(layers: int = 2) -> Any:
    """Return Gemma-2: caps low enough to bend the scores, a window in every other layer."""
    from transformers import Gemma2Config, Gemma2Model

    config = Gemma2Config(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        head_dim=8,
        query_pre_attn_scalar=12,
        attn_logit_softcapping=1.5,
        sliding_window=4,
    )
    return stirred(Gemma2Model(computed(config)))


def bloom(layers: int = 2) -> Any:
    """Return BLOOM, with three linear biases fused per head."""
    from transformers import BloomConfig, BloomModel

    config = BloomConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, n_layer=layers, n_head=HEADS)
    return stirred(BloomModel(config))


def neox(layers: int = 2) -> Any:
    """Return GPT-NeoX, which rotates half of each head."""
    from transformers import GPTNeoXConfig, GPTNeoXModel

    config = GPTNeoXConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
        },
    )
    return stirred(GPTNeoXModel(computed(config, "sdpa")))


def gptj(layers: int = 2) -> Any:
    """Return GPT-J, which rotates neighbouring features of half of each head."""
    from transformers import GPTJConfig, GPTJModel

    config = GPTJConfig(
        vocab_size=VOCABULARY,
        n_positions=16,
        n_embd=WIDTH,
        n_layer=layers,
        n_head=HEADS,
        rotary_dim=4,
    )
    return stirred(GPTJModel(computed(config)))


def opt(layers: int = 2) -> Any:
    """Return OPT, whose learned positions begin at 2."""
    from transformers import OPTConfig, OPTModel

    config = OPTConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        word_embed_proj_dim=WIDTH,
        ffn_dim=48,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        max_position_embeddings=16,
    )
    return stirred(OPTModel(config))


def mpt(layers: int = 2) -> Any:
    """Return MPT, with linear biases and one fused projection."""
    from transformers import MptConfig, MptModel

    config = MptConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, n_layers=layers, n_heads=HEADS, expansion_ratio=2
    )
    return stirred(MptModel(config))


def qwen3(layers: int = 2) -> Any:
    """Return Qwen3, which normalises queries and keys per head."""
    from transformers import Qwen3Config, Qwen3Model

    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        head_dim=8,
    )
    return stirred(Qwen3Model(computed(config)))


def gpt_oss_attention() -> Any:
    """Return the attention of GPT-OSS alone: sinks, a window, biases everywhere."""
    from transformers import GptOssConfig
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention

    config = GptOssConfig(
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=4,
    )
    return stirred(GptOssAttention(computed(config), layer_idx=0))


def multihead(*, batch_first: bool = True, kdim: int | None = None) -> nn.MultiheadAttention:
    """Return PyTorch's own multi-head attention."""
    return stirred(
        nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, kdim=kdim, vdim=kdim)
    )


def encoder_layer(seed: int = 7, *, norm_first: bool = False) -> nn.TransformerEncoderLayer:
    """Return PyTorch's own encoder layer."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 48, batch_first=True, norm_first=norm_first)
    return stirred(layer, seed=seed)
