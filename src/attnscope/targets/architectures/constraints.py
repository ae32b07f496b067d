"""Fields of one configuration that must agree with each other once the sizes are small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnscope.targets.architectures import sizes

_STATE_FIELDS = (
    ("mamba_expand", "mamba_n_heads", "mamba_d_head"),
    ("expand", "num_heads", "head_dim"),
    ("expand", "mamba_num_heads", "mamba_head_dim"),
)


def agreeing(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `values` that have to change so that they fit together.

    `config` is the default configuration that `values` was shrunk from.
    """
    return {
        **_image(config),
        **_state_heads(values),
        **_rotary_sections(config, values),
        **_latent_heads(values),
        **_stages(config, values),
    }


def _image(config: Any) -> dict[str, Any]:
    """Return an image size: four patches a side, or 64 for networks that halve it in stages."""
    found = vars(config)
    changed: dict[str, Any] = {}
    size = found.get("image_size")
    patch = found.get("patch_size")
    side = 32 if isinstance(patch, int) and patch > 4 else 64
    if "depths" in found and "window_size" in found:
        side = 128
    if isinstance(size, list | tuple):
        changed["image_size"] = type(size)(side for _ in size)
    elif size is not None:
        changed["image_size"] = side
    if "window_size" in found and "spatial_merge_size" in found:
        changed["window_size"] = 8 * 2 * int(found["spatial_merge_size"])
    pinpoints = found.get("image_grid_pinpoints")
    if pinpoints:
        unit = min(min(pair) for pair in pinpoints)
        changed["image_grid_pinpoints"] = [
            [32 * edge // unit for edge in pair] for pair in pinpoints
        ]
    return changed


def _state_heads(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the heads of state-space layers, which together span the expanded width."""
    for expand, heads, width in _STATE_FIELDS:
        if all(values.get(name) is not None for name in (expand, heads)) and width in values:
            expanded = int(values[expand] * values.get("hidden_size", sizes.WIDTH))
            return {heads: expanded // sizes.HEAD_DIM, width: sizes.HEAD_DIM}
    return {}


def _latent_heads(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return as many kv heads as heads where keys and values come from one latent vector."""
    if values.get("kv_lora_rank") is not None and "num_key_value_heads" in values:
        return {"num_key_value_heads": values.get("num_attention_heads", sizes.HEADS)}
    return {}


def _stages(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return which stages a backbone hands out: as many as the default, the last ones."""
    if "_out_features" not in vars(config):
        return {}
    names, chosen = vars(config).get("stage_names") or [], list(config.out_features or [])
    field = type(config).attribute_map.get("num_hidden_layers", "num_hidden_layers")
    count = vars(config).get(field)
    if not chosen or field not in values or len(names) != (count or -2) + 1:
        return {"out_features": chosen} if chosen else {}
    layers = max(values[field], len(chosen))
    return {field: layers, "out_indices": list(range(layers - len(chosen) + 1, layers + 1))}


def _rotary_sections(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return rotary parameters whose sections (time, height, width) fill half a head."""
    ignored = getattr(type(config), "ignore_keys_at_rope_validation", ())
    current = vars(config).get("rope_parameters")
    if "mrope_section" not in ignored or not isinstance(current, dict):
        return {}
    width = values.get("qk_rope_head_dim") or values.get("head_dim") or sizes.HEAD_DIM

    if not current:
        return {}

    def with_sections(entry: Mapping[str, Any]) -> dict[str, Any]:
        half = int(width * entry.get("partial_rotary_factor", 1.0)) // 2
        third = max(1, half // 3)
        return {
            **entry,
            "mrope_section": [third, third, half - 2 * third] if half > 2 else [1, 1, 0],
        }

    if all(isinstance(entry, dict) for entry in current.values()):
        return {"rope_parameters": {kind: with_sections(entry) for kind, entry in current.items()}}
    return {"rope_parameters": with_sections(current)}
