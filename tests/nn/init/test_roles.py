"""What part a weight plays, told by the names that libraries give."""

from __future__ import annotations

import pytest

from attnscope.nn.init import role_of

NAMES = {
    "transformer.h.0.attn.c_attn.weight": "qkv",
    "transformer.h.0.attn.c_proj.weight": "o",
    "transformer.h.0.mlp.c_fc.weight": "ff-in",
    "transformer.h.0.mlp.c_proj.weight": "ff-out",
    "transformer.wte.weight": "embedding",
    "transformer.wpe.weight": "positions",
    "lm_head.weight": "head",
    "model.layers.3.self_attn.q_proj.weight": "q",
    "model.layers.3.self_attn.k_proj.weight": "k",
    "model.layers.3.self_attn.v_proj.weight": "v",
    "model.layers.3.self_attn.o_proj.weight": "o",
    "model.layers.3.mlp.gate_proj.weight": "ff-in",
    "model.layers.3.mlp.down_proj.weight": "ff-out",
    "bert.encoder.layer.0.attention.self.query.weight": "q",
    "bert.encoder.layer.0.attention.output.dense.weight": "o",
    "bert.encoder.layer.0.intermediate.dense.weight": "ff-in",
    "bert.encoder.layer.0.output.dense.weight": "ff-out",
    "encoder.block.0.layer.0.SelfAttention.o.weight": "o",
    "encoder.block.0.layer.1.DenseReluDense.wi.weight": "ff-in",
    "encoder.block.0.layer.1.DenseReluDense.wo.weight": "ff-out",
    "layers.0.attention.wo.weight": "o",
    "layers.0.feed_forward.w2.weight": "ff-out",
    "gpt_neox.layers.0.attention.query_key_value.weight": "qkv",
    "layers.0.self_attn.in_proj_weight": "qkv",
    "layers.0.self_attn.q_proj_weight": "q",
    "layers.0.self_attn.out_proj.weight": "o",
    "layers.0.linear2.weight": "ff-out",
    "blocks.0.attn.W_Q": "q",
    "blocks.0.attn.W_O": "o",
    "blocks.0.attn.proj.weight": "o",
    "attn.to_out.0.weight": "o",
    "attn.to_kv.weight": "kv",
    "conv.weight": "hidden",
    "weight": "hidden",
}


@pytest.mark.parametrize(("name", "role"), NAMES.items(), ids=list(NAMES))
def test_a_name_tells_its_role(name: str, role: str) -> None:
    assert role_of(name) == role
