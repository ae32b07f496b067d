"""Turning a configuration of transformers into a tiny one of the same shape."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnscope.targets.architectures import sizes
from attnscope.targets.architectures.constraints import agreeing
from attnscope.targets.architectures.layers import cut_layers, names_layers, own_fields
from attnscope.targets.architectures.special import NOTHING, SPECIAL

_TOKEN = re.compile(r"(^|_)token(_id|_index|_ids)$|_index$")
_PLACEHOLDER = re.compile(r"(image|video|audio|media).*token_(id|index)$")


@dataclass(slots=True)
class Tokens:
    """Small stand-ins for special token ids; equal ids stay equal across the whole tree."""

    given: dict[int | str, int] = field(default_factory=dict)

    def place(self, token: int | str) -> int:
        """Return the small id for `token`: an id, or the name of a field that leaves it open."""
        if isinstance(token, int) and token < sizes.SMALL_TOKEN_ID:
            return token
        return self.given.setdefault(token, sizes.VOCABULARY - 2 - len(self.given))


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the tree a configuration stands: its dotted `path`, and what holds everywhere."""

    tokens: Tokens
    special: Mapping[str, Any]
    path: str = ""

    def below(self, name: str) -> str:
        """Return the dotted path of the field `name` of this configuration."""
        return f"{self.path}.{name}" if self.path else name


def shrink(config: Any, place: Place | None = None) -> Any:
    """Return a new configuration of the class of `config` in which every size is tiny.

    `config` is a default configuration; its sub-configurations are shrunk alike, with the
    exceptions that `SPECIAL` lists for their model types.
    """
    place = place or Place(Tokens(), {})
    known = SPECIAL.get(config.model_type, NOTHING)
    if known.keep:
        return type(config)(**known.config) if known.config else config
    own = {place.below(name): value for name, value in known.config.items()}
    place = dataclasses.replace(place, special={**own, **place.special})
    values = _numbers(config, place.tokens) | cut_layers(config) | _parts(config, place)
    values |= agreeing(config, values)
    values |= {
        dotted.rpartition(".")[2]: value
        for dotted, value in place.special.items()
        if dotted.rpartition(".")[0] == place.path
    }
    made = type(config)(**values)
    late = {name: value for name, value in _stubborn(config, made).items() if name not in values}
    return type(config)(**values, **late) if late else made


def _parts(config: Any, place: Place) -> dict[str, Any]:
    """Return the shrunk sub-configurations of `config`."""
    parts: dict[str, Any] = {}
    for name in own_fields(config):
        value = vars(config).get(name)
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            value = _residual_backbone(value) if value.model_type == "timm_backbone" else value
            parts[name] = shrink(value, dataclasses.replace(place, path=place.below(name)))
    return parts


def _residual_backbone(timm: Any) -> Any:
    """Return the library's own residual network in place of one that needs the package timm."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    count = len(timm.out_indices or [4])
    config_class: Any = CONFIG_MAPPING["resnet"]
    return config_class(out_features=[f"stage{stage}" for stage in range(5 - count, 5)])


def _numbers(config: Any, tokens: Tokens) -> dict[str, Any]:
    """Return the shrunk scalars, stage lists and token ids of `config`.

    What is None by declaration stays so: the class works it out from the smaller sizes.
    """
    small: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        name, value = item.name, vars(config).get(item.name)
        if name not in own_fields(config) or name in ("image_size", "id2label", "label2id"):
            continue
        if isinstance(value, bool | str | float | dict) and item.default is not None:
            small[name] = value
        elif item.default is None or value is None:
            small |= _open(name, value, tokens)
        elif _TOKEN.search(name) and not name.startswith("num_"):
            small[name] = _token(value, tokens)
        else:
            small[name] = _resized(name, value)
    return small


def _open(name: str, derived: Any, tokens: Tokens) -> dict[str, Any]:
    """Return values for fields that default to None and yet must be small or present."""
    if isinstance(derived, dict):
        return {name: derived}
    if _PLACEHOLDER.search(name):
        return {name: tokens.place(name)}
    if name == "vocab_size" and derived is None:
        return {name: sizes.VOCABULARY}
    if name == "head_dim":
        return {name: sizes.HEAD_DIM}
    if name == "num_key_value_heads" and (derived is None or derived > sizes.KV_HEADS):
        return {name: sizes.KV_HEADS}
    return {}


def _token(value: Any, tokens: Tokens) -> Any:
    if isinstance(value, int):
        return tokens.place(value)
    if isinstance(value, list | tuple):
        return type(value)(tokens.place(entry) if type(entry) is int else entry for entry in value)
    return value


def _resized(name: str, value: Any) -> Any:
    """Return the number or list of numbers `value` made small by the rule for `name`."""
    if type(value) is int:
        return sizes.small(name, value)
    numbers = isinstance(value, list | tuple) and all(type(entry) is int for entry in value)
    if numbers and not names_layers(name):
        return type(value)(sizes.small_stages(name, list(value)))
    return value


def _stubborn(config: Any, made: Any) -> dict[str, Any]:
    """Return small values for what the class fills in by itself, whatever the other sizes are."""
    late: dict[str, Any] = {}
    own = own_fields(config)
    for item in dataclasses.fields(config):
        value = vars(made).get(item.name)
        numbers = isinstance(value, int | list | tuple) and item.name in own
        if numbers and item.default is None and value == vars(config).get(item.name):
            small = _resized(item.name, value)
            if small != value:
                late[item.name] = small
    return late
