"""Choosing which forward arguments to give, and making them."""

from __future__ import annotations

from typing import Any

from attnscope.targets.architectures import (
    patch_inputs,
    signal_inputs,
    text_inputs,
    vision_inputs,
)
from attnscope.targets.architectures.plan import Plan, walk

MAKERS = {
    **text_inputs.MAKERS,
    **patch_inputs.MAKERS,
    **vision_inputs.MAKERS,
    **signal_inputs.MAKERS,
}

# Given whenever the forward takes them; the rest only where required or the main input.
_USUAL = frozenset(
    {
        "input_ids",
        "pixel_values",
        "image_grid_thw",
        "image_grid_hw",
        "input_features",
        "input_features_mask",
        "feature_attention_mask",
        "bbox",
        "aspect_ratio_ids",
        "aspect_ratio_mask",
        "spatial_shapes",
        "flattened_patches",
        "high_res_pixel_values",
        "target_sizes",
        "image_merge_sizes",
        "qformer_input_ids",
        "image_position_ids",
        "visual_feats",
        "visual_pos",
        "mm_token_type_ids",
    }
)


# What makes sense only beside the argument it is listed under.
COMPANIONS: dict[str, tuple[str, ...]] = {
    "input_features": ("input_features_mask", "feature_attention_mask"),
    "input_values": (),
    "pixel_values": (
        "pixel_attention_mask",
        "image_grid_thw",
        "image_grid_hw",
        "image_sizes",
        "image_position_ids",
        "aspect_ratio_ids",
        "aspect_ratio_mask",
        "spatial_shapes",
        "target_sizes",
    ),
}
# What comes along with the argument it is listed under, where the forward takes it.
_FOLLOWERS: dict[str, set[str]] = {
    "input_ids": {"attention_mask"},
    "past_time_features": {"future_values", "future_time_features"},
    "states": {"actions", "rewards", "returns_to_go", "timesteps"},
}
_IMAGE_PARTS = ("vision", "visual", "image", "vlm", "vq", "backbone")
_AUDIO_PARTS = ("audio", "speech", "encoder_config", "codec")
_AUDIO = frozenset({"input_features", "input_features_mask", "feature_attention_mask"})


def wanted(plan: Plan) -> list[str]:
    """Return the names of the forward arguments to make, in the order of the signature."""
    parameters = set(plan.parameters())
    main = plan.model.main_input_name
    mains = set(main) if isinstance(main, list | tuple) else {main}
    needed = plan.required() | mains | plan.given
    chosen = (needed | _USUAL) & parameters
    for leader, followers in _FOLLOWERS.items():
        if leader in chosen:
            chosen |= followers & parameters
    if getattr(plan.config, "is_encoder_decoder", False):
        chosen |= {"decoder_input_ids"} & parameters
    if plan.look("image_grid_pinpoints"):
        chosen |= {"image_sizes"} & parameters
    if "input_ids" in parameters:
        chosen -= _without_parts(plan) - needed
    chosen -= plan.dropped
    for leader, companions in COMPANIONS.items():
        if leader in parameters and leader not in chosen:
            chosen -= set(companions) - plan.required()
    return [name for name in plan.parameters() if name in chosen and name in MAKERS]


def _without_parts(plan: Plan) -> set[str]:
    """Return the arguments that nothing in the configuration would read."""
    unread: set[str] = set()
    if not _has_part(plan, _AUDIO_PARTS):
        unread |= _AUDIO
    if not _has_part(plan, _IMAGE_PARTS):
        unread |= {"pixel_values", "image_sizes"}
    return unread


def _has_part(plan: Plan, words: tuple[str, ...]) -> bool:
    return any(
        any(word in name for word in words) and value is not None
        for config in walk(plan.config)
        for name, value in vars(config).items()
        if name.endswith(("config", "encoder"))
    )


def make_inputs(plan: Plan, seed: int) -> dict[str, Any]:
    """Return keyword arguments for the model's forward, the same ones for the same seed."""
    import torch

    made: dict[str, Any] = {}
    for name in wanted(plan):
        torch.manual_seed(seed)
        made[name] = MAKERS[name](plan)
    return made
