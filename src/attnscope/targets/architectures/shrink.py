"""Turning a configuration class of transformers into a tiny configuration of the same shape."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnscope.targets.architectures import sizes
from attnscope.targets.architectures.constraints import agreeing
from attnscope.targets.architectures.layers import chosen_layers
from attnscope.targets.architectures.special import NOTHING, SPECIAL

_TOKEN = re.compile(r"(^|_)token(_id|_index|_ids)$|_token_id$|_index$")
_PLACEHOLDER = re.compile(r"(image|video|audio|media).*token_(id|index)$")
_LAYER_INDICES = re.compile(
    r"ind(ex|ices)(es)?$|_ids$|_idx$|hook|feature_layer|extract_layers|^_out_ind|attn_indexes|block_indexes"
)
_COUNTED_INDICES = re.compile(r"out_ind|hook|feature|extract|intermediate")
_NEVER = frozenset({"image_size", "architectures", "transformers_version", "id2label", "label2id"})


@dataclass(slots=True)
class Tokens:
    """Small stand-ins for special token ids; equal ids stay equal across the whole tree."""

    size: int = sizes.VOCABULARY
    given: dict[int, int] = field(default_factory=dict)

    def place(self, token: int) -> int:
        """Return the id inside the small vocabulary that stands for `token`."""
        if token < sizes.SMALL_TOKEN_ID:
            return token
        if token not in self.given:
            self.given[token] = self.size - 2 - len(self.given)
        return self.given[token]

    def fresh(self, name: str) -> int:
        """Return an id for the placeholder `name` that the configuration leaves open."""
        return self.place((1 << 40) + sum(ord(letter) << (index % 8) for index, letter in enumerate(name)))


def shrink(
    config: Any, *, tokens: Tokens | None = None, special: Mapping[str, Any] | None = None, path: str = ""
) -> Any:
    """Return a new configuration of the class of `config` in which every size is tiny.

    `config` is a default configuration; its sub-configurations are shrunk alike.
    `special` maps dotted field paths ("text_config.head_dim") to values that win over the rules.
    """
    tokens = tokens if tokens is not None else Tokens()
    known = SPECIAL.get(config.model_type, NOTHING)
    if known.keep:
        return type(config)(**known.config) if known.config else config
    own = known.config
    special = {**{f"{path}.{name}" if path else name: value for name, value in own.items()}, **(special or {})}
    values = dict(_parts(config, tokens, special, path))
    values.update(_numbers(config, tokens))
    values.update(_layer_lists(config))
    values.update(agreeing(config, values))
    values.update(_own(special, path))
    made = type(config)(**values)
    late = {name: value for name, value in _stubborn(config, made).items() if name not in values}
    return type(config)(**values, **late) if late else made


def _stubborn(config: Any, made: Any) -> dict[str, Any]:
    """Return small values for what the class fills in by itself, whatever the other sizes are."""
    late: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = vars(made).get(item.name)
        if item.name not in _field_names(config) or not isinstance(value, int | list | tuple):
            continue
        if value != vars(config).get(item.name):
            continue
        small = _resized(item.name, value) if item.default is None else value
        if small != value:
            late[item.name] = small
    return late


def _resized(name: str, value: Any) -> Any:
    """Return the number or list of numbers `value` made small by the rule for `name`."""
    if type(value) is int:
        return sizes.small(name, value)
    if isinstance(value, list | tuple) and value and all(type(entry) is int for entry in value):
        if not _LAYER_INDICES.search(name):
            return type(value)(sizes.small_stages(name, list(value)))
    return value


def _own(special: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the entries of `special` that name a field directly under `path`."""
    own = {}
    for dotted, value in special.items():
        parent, _, name = dotted.rpartition(".")
        if parent == path:
            own[name] = value
    return own


def _parts(config: Any, tokens: Tokens, special: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the shrunk sub-configurations of `config`."""
    parts: dict[str, Any] = {}
    for name in _field_names(config):
        value = vars(config).get(name)
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            if value.model_type == "timm_backbone":
                value = _residual_backbone(value)
            dotted = f"{path}.{name}" if path else name
            parts[name] = shrink(value, tokens=tokens, special=special, path=dotted)
    return parts


def _residual_backbone(timm: Any) -> Any:
    """Return the library's own residual network in place of one that needs the package timm."""
    from transformers import ResNetConfig

    count = len(timm.out_indices or [4])
    return ResNetConfig(out_features=[f"stage{stage}" for stage in range(5 - count, 5)])


def _field_names(config: Any) -> list[str]:
    from transformers import PreTrainedConfig

    base = {item.name for item in dataclasses.fields(PreTrainedConfig)}
    return [item.name for item in dataclasses.fields(config) if item.name not in base]


def _defaults(config: Any) -> dict[str, Any]:
    """Return what `config` says in its own fields where the class gives a default to change.

    A field whose default is None stays out: the class works it out from the smaller sizes.
    """
    found: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        if item.name not in _field_names(config):
            continue
        declared = item.default
        if declared is dataclasses.MISSING and item.default_factory is not dataclasses.MISSING:
            declared = item.default_factory()
        value = vars(config).get(item.name)
        if declared is None and not isinstance(value, dict):
            found[item.name] = None
        else:
            found[item.name] = value
    return found


def _numbers(config: Any, tokens: Tokens) -> dict[str, Any]:
    """Return the shrunk scalars, stage lists and token ids of `config`."""
    small: dict[str, Any] = {}
    for name, value in _defaults(config).items():
        if name in _NEVER:
            continue
        if value is None:
            small.update(_open(config, name, tokens))
        elif isinstance(value, bool | str | float | dict):
            small[name] = value
        elif _TOKEN.search(name) and not name.startswith("num_"):
            small[name] = _token(value, tokens)
        else:
            small[name] = _resized(name, value)
    return small


def _open(config: Any, name: str, tokens: Tokens) -> dict[str, Any]:
    """Return values for fields that default to None and yet must be small or present."""
    if _PLACEHOLDER.search(name):
        return {name: tokens.fresh(name)}
    if name == "vocab_size" and vars(config).get(name) is None:
        return {name: sizes.VOCABULARY}
    if name == "head_dim":
        return {name: sizes.HEAD_DIM}
    derived = vars(config).get(name)
    if name == "num_key_value_heads" and (derived is None or derived > sizes.KV_HEADS):
        return {name: sizes.KV_HEADS}
    return {}


def _token(value: Any, tokens: Tokens) -> Any:
    if isinstance(value, int):
        return tokens.place(value)
    if isinstance(value, list | tuple):
        return type(value)(tokens.place(entry) if type(entry) is int else entry for entry in value)
    return value


def _layer_lists(config: Any) -> dict[str, Any]:
    """Return the number of layers and every list with one entry per layer, cut alike."""
    attribute_map: Mapping[str, str] = getattr(type(config), "attribute_map", {})
    name = attribute_map.get("num_hidden_layers", "num_hidden_layers")
    count = vars(config).get(name)
    if name not in _field_names(config) or type(count) is not int:
        return {}
    lists: dict[str, list[Any]] = {}
    indices: dict[str, list[int]] = {}
    for own in _field_names(config):
        value = vars(config).get(own)
        if not isinstance(value, list | tuple) or not value:
            continue
        if _LAYER_INDICES.search(own) and all(type(entry) is int for entry in value):
            indices[own] = list(value)
        elif len(value) == count and not _TOKEN.search(own):
            lists[own] = list(value)
    cut: dict[str, Any] = {}
    counted = [len(value) for own, value in indices.items() if _COUNTED_INDICES.search(own)]
    least = max([min(count, sizes.LAYERS), *counted])
    kept = chosen_layers(lists, least) if lists else list(range(least))
    for own, entries in lists.items():
        cut[own] = [_entry(own, entries[layer]) for layer in kept]
    cut[name] = len(kept)
    for own, entries in indices.items():
        if max(entries) > count or min(entries) < -count or count < sizes.LAYERS:
            continue
        last = len(kept) if max(entries) >= count else len(kept) - 1
        if _COUNTED_INDICES.search(own):
            cut[own] = [last - len(entries) + 1 + index for index in range(len(entries))]
        else:
            cut[own] = [min(1, last)]
    return cut


def _entry(name: str, value: Any) -> Any:
    return sizes.small(name, value) if type(value) is int else value
