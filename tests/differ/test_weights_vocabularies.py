"""Hugging Face models against ports under other names: each tensor finds its own, both ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

pytest.importorskip("transformers", reason="the extra hf is not installed")

from attnscope.differ.weights import pair
from attnscope.targets.architectures import build as architecture
from tests.differ import skeletons
from tests.differ.skeletons import Entry, shuffle


def neox() -> list[Entry]:
    return [
        ("emb", nn.Embedding(128, 32), ("gpt_neox.embed_in.{leaf}",)),
        *skeletons.split_neox("gpt_neox", "layers", "attention"),
        ("norm", nn.LayerNorm(32), ("gpt_neox.final_layer_norm.{leaf}",)),
        ("lm_head", nn.Linear(32, 128, bias=False), ("lm_head.{leaf}",)),
    ]


def bloom() -> list[Entry]:
    t = "transformer."
    return [
        ("emb", nn.Embedding(128, 32), (t + "word_embeddings.{leaf}",)),
        ("emb_ln", nn.LayerNorm(32), (t + "word_embeddings_layernorm.{leaf}",)),
        *skeletons.split_neox("transformer", "h", "self_attention", inner=128),
        ("ln_f", nn.LayerNorm(32), (t + "ln_f.{leaf}",)),
    ]


def llama() -> list[Entry]:
    config = architecture("llama").config
    kv = config.num_key_value_heads * config.head_dim
    return skeletons.interleaved_list(
        config.hidden_size, config.intermediate_size, kv, config.vocab_size
    )


PORTS: dict[str, Callable[[], list[Entry]]] = {
    "gpt2": skeletons.nano,
    "bert": skeletons.torch_encoder,
    "t5": skeletons.own_t5,
    "gpt_neox": neox,
    "bloom": bloom,
    "vit": skeletons.timm_vit,
    "llama": llama,
}


def both(name: str) -> tuple[nn.Module, nn.Module, dict[str, list[str]]]:
    port, expected = skeletons.build(PORTS[name](), n_heads=4)
    return shuffle(port, 1), shuffle(architecture(name).model, 2), expected


@pytest.mark.parametrize("name", PORTS)
def test_each_tensor_of_a_port_follows_from_its_own(name: str) -> None:
    port, original, expected = both(name)
    found = pair(port, original)
    told = {one.candidate: list(one.references) for one in found}
    told = {key: told[key] for key in told if "out_proj" not in key or name != "bert"}
    assert told == {key: expected[key] for key in told}
    assert {one.proof for one in found} == {"copied"}
    assert not found.left


@pytest.mark.parametrize("name", PORTS)
def test_copied_there_and_back_every_value_is_the_same(name: str) -> None:
    port, original, _ = both(name)
    pair(port, original).apply()
    again = pair(port, original)
    assert {(one.method, one.proof) for one in again} == {("value", "equal")}
    other = shuffle(architecture(name).model, 3)
    pair(other, port).apply()
    for (key, left), right in zip(original.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(left, right), key


def test_the_rows_of_each_head_are_those_that_the_library_reads() -> None:
    port, original, _ = both("gpt_neox")
    pair(port, original).apply()
    fused = original.get_parameter("gpt_neox.layers.1.attention.query_key_value.weight")
    heads = fused.view(4, 3, 8, 32)  # GPT-NeoX: (heads, q k v, head_dim)
    for at, name in enumerate(("query", "key", "value")):
        mine = port.get_parameter(f"layers.1.attn.{name}_proj.weight")
        assert torch.equal(mine, heads[:, at].reshape(32, 32))


def test_falcons_groups_hold_their_queries_then_key_and_value() -> None:
    original = shuffle(architecture("falcon").model, 2)
    fused = original.get_parameter("transformer.h.0.self_attention.query_key_value.weight")
    entries: list[Entry] = [("attn.to_q", nn.Linear(32, 32, bias=False), ())]
    entries += [(f"attn.to_{part}", nn.Linear(32, 8, bias=False), ()) for part in "kv"]
    port, _ = skeletons.build(entries)
    reference = nn.Module()
    reference.config = original.config
    reference.add_module("attn", original.get_submodule("transformer.h.0.self_attention"))
    found = pair(port, reference, {"ignore": "attn.dense.*"})
    found.apply()
    assert torch.equal(port.get_parameter("attn.to_q.weight"), fused[:32])
    assert torch.equal(port.get_parameter("attn.to_k.weight"), fused[32:40])
    assert torch.equal(port.get_parameter("attn.to_v.weight"), fused[40:])


def test_codegens_shards_hold_queries_values_keys() -> None:
    original = shuffle(architecture("codegen").model, 2)
    attention = original.get_submodule("transformer.h.0.attn")
    fused = attention.get_parameter("qkv_proj.weight")
    width = fused.shape[1]
    entries: list[Entry] = [
        (f"attn.{part}_proj", nn.Linear(width, width, bias=False), ()) for part in "qkv"
    ]
    entries.append(("attn.out_proj", nn.Linear(width, width, bias=False), ()))
    port, _ = skeletons.build(entries)
    reference = nn.Module()
    reference.add_module("attn", attention)
    pair(port, reference).apply()
    shards = fused.view(4, 3, width // 4, width)
    for part, at in {"q": 0, "v": 1, "k": 2}.items():
        mine = port.get_parameter(f"attn.{part}_proj.weight")
        assert torch.equal(mine, shards[:, at].reshape(width, width))


@pytest.mark.parametrize(
    "name", ["opt", "bart", "phi3", "mixtral", "gpt_oss", "gemma2", "whisper", "deepseek_v3"]
)
def test_the_same_architecture_pairs_by_its_own_names(name: str) -> None:
    candidate, reference = (architecture(name, seed=seed).model for seed in (0, 1))
    found = pair(candidate, reference)
    assert [one.references for one in found] == [(one.candidate,) for one in found]
    assert {one.how for one in found} == {"whole"}
