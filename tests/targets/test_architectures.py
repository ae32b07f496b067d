"""Architectures are built tiny, run with the inputs made for them, and leave no trace."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="the extra hf is not installed")

from attnscope.errors import TargetError
from attnscope.targets.architectures import architectures, build
from attnscope.targets.architectures.layers import chosen_layers
from attnscope.targets.architectures.sizes import small, small_stages

CROSS_SECTION = {
    "llama": {"input_ids", "attention_mask"},  # text decoder
    "bert": {"input_ids", "attention_mask"},  # text encoder
    "t5": {"input_ids", "attention_mask", "decoder_input_ids"},  # encoder-decoder
    "mixtral": {"input_ids", "attention_mask"},  # mixture of experts
    "jamba": {"input_ids", "attention_mask"},  # state space and attention
    "swin": {"pixel_values"},  # vision, windowed
    "videomae": {"pixel_values"},  # video
    "whisper": {"input_features", "decoder_input_ids"},  # audio, spectrogram
    "wav2vec2": {"input_values"},  # audio, waveform
    "llava": {"input_ids", "attention_mask", "pixel_values"},  # text and images
    "qwen2_vl": {"input_ids", "pixel_values", "image_grid_thw"},  # text and patches
    "detr": {"pixel_values"},  # detection, on a backbone
    "informer": {"past_values", "past_time_features", "future_values"},  # time series
    "layoutlm": {"input_ids", "bbox"},  # layout
}


def floats(value: Any) -> list[torch.Tensor]:
    """Return the float tensors inside the output of a model."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        return [found for entry in value.values() for found in floats(entry)]
    if isinstance(value, list | tuple):
        return [found for entry in value for found in floats(entry)]
    return []


@pytest.mark.parametrize("name", ["blip-2", "instructblip", "llava"])
def test_pictures_reach_the_text(name: str) -> None:
    built = build(name)
    others = built.inputs | {"pixel_values": built.inputs["pixel_values"].flip(0)}
    with torch.no_grad():
        before, after = (built.model(**each).logits for each in (built.inputs, others))
    assert not torch.equal(before, after)


def numpy_state() -> Any:
    """Return the numbers behind NumPy's global generator, which some models draw from."""
    state: Any = np.random.get_state()  # noqa: NPY002
    return state[1]


@pytest.mark.parametrize("name", CROSS_SECTION)
def test_builds_small_and_runs(name: str) -> None:
    built = build(name)
    assert CROSS_SECTION[name] <= set(built.inputs)
    assert not built.model.training
    assert sum(weight.numel() for weight in built.model.parameters()) < 5_000_000
    assert type(built.model).__name__ == built.model_class
    with torch.no_grad():
        output = built.model(**built.inputs)
    assert all(bool(torch.isfinite(found).all()) for found in floats(output))


@pytest.mark.parametrize("name", ["llama", "t5", "swin", "wav2vec2"])
def test_trains(name: str) -> None:
    built = build(name, train=True)
    assert built.model.training
    torch.stack([found.sum() for found in floats(built.model(**built.inputs))]).sum().backward()
    assert any(weight.grad is not None for weight in built.model.parameters())


@pytest.mark.parametrize("name", ["llama", "qwen2_vl"])
def test_attention_is_the_one_asked_for_in_every_part(name: str) -> None:
    built = build(name, attn_implementation="eager")
    parts = [
        built.config,
        *(part for part in vars(built.config).values() if hasattr(part, "to_dict")),
    ]
    assert {part._attn_implementation for part in parts} == {"eager"}


def test_the_same_seed_gives_the_same_weights_and_inputs() -> None:
    first, second, other = build("bert"), build("bert"), build("bert", seed=1)
    for name, weight in first.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name])
    assert torch.equal(first.inputs["input_ids"], second.inputs["input_ids"])
    assert not torch.equal(first.inputs["input_ids"], other.inputs["input_ids"])


def test_random_states_are_left_as_they_were() -> None:
    before = torch.get_rng_state(), random.getstate(), numpy_state()
    build("big_bird")  # seeds NumPy's global state in its forward
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(numpy_state(), before[2])
    assert not torch.are_deterministic_algorithms_enabled()


def test_sizes_can_be_told_apart() -> None:
    built = build("llama")
    batch, length = built.inputs["input_ids"].shape
    config = built.config
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    sizes = [batch, length, heads, config.head_dim, config.intermediate_size, config.vocab_size]
    assert len(set(sizes)) == len(sizes)
    assert heads == 2 * kv_heads


def test_padding_is_masked() -> None:
    mask = build("bert").inputs["attention_mask"]
    assert mask[0].all()
    assert not mask[-1, -1]


def test_every_kind_of_layer_stays() -> None:
    assert set(build("gemma3_text").config.layer_types) == {"sliding_attention", "full_attention"}


def test_placeholders_match_the_image_features() -> None:
    built = build("llava")
    placed = (built.inputs["input_ids"] == built.config.image_token_id).sum(dim=1)
    patches = (built.config.vision_config.image_size // built.config.vision_config.patch_size) ** 2
    assert placed.tolist() == [patches, patches]


def test_an_unknown_name_lists_close_ones() -> None:
    with pytest.raises(TargetError, match="has no model type 'lama'") as caught:
        build("lama")
    assert "llama" in caught.value.todo


def test_a_missing_package_is_named() -> None:
    pytest.importorskip("transformers")
    with pytest.raises(TargetError) as caught:
        build("timm_wrapper")
    assert caught.value.found == "the package timm is not installed"


def test_a_part_without_a_forward_says_so() -> None:
    with pytest.raises(TargetError, match="has a forward"):
        build("sam_prompt_encoder")


def test_names_are_sorted_and_many() -> None:
    names = architectures()
    assert list(names) == sorted(names)
    assert {"llama", "bert", "whisper"} <= set(names)


def test_importing_loads_no_transformers() -> None:
    code = "import sys, attnscope.targets.architectures; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_layers_of_each_kind_are_chosen_first() -> None:
    kinds = ["linear", "linear", "full", "linear"]
    assert chosen_layers({"layer_types": kinds}, least=2) == [0, 2]
    assert chosen_layers({"layer_types": kinds}, least=3) == [0, 1, 2]
    assert chosen_layers({"layer_types": kinds, "mlp": ["a", "b", "a", "a"]}, least=1) == [0, 1, 2]


def test_numbers_shrink_by_what_they_count() -> None:
    assert small("num_attention_heads", 32) == 4
    assert small("num_key_value_heads", 1) == 1
    assert small("num_channels", 3) == 3
    assert small_stages("hidden_sizes", [256, 512, 1024]) == [32, 64, 128]
    assert small_stages("num_heads", [3, 6, 12]) == [1, 2, 4]
