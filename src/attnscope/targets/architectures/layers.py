"""Choosing the few layers that still show every kind of layer of an architecture."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from attnscope.targets.architectures import sizes

MOST_LAYERS = 6

_INDICES = re.compile(r"ind(ex|ices)(es)?$|_ids$|_idx$|hook|feature_layer|extract_layers|^_out_ind")
_COUNTED = re.compile(r"out_ind|hook|feature|extract|intermediate")
_TOKEN = re.compile(r"token_(id|index|ids)$")


def own_fields(config: Any) -> list[str]:
    """Return the fields that the class of `config` adds to what every configuration has."""
    from transformers import PreTrainedConfig

    base = {item.name for item in dataclasses.fields(PreTrainedConfig)}
    return [item.name for item in dataclasses.fields(config) if item.name not in base]


def names_layers(name: str) -> bool:
    """Tell whether the field `name` holds indices of layers."""
    return _INDICES.search(name) is not None


def cut_layers(config: Any) -> dict[str, Any]:
    """Return the small number of layers, and every list by layer and every index cut alike.

    The first layer of every kind stays. Lists of indices whose length other parts rely on keep
    it, and name the last layers; the others name one layer.
    """
    attribute_map: Mapping[str, str] = getattr(type(config), "attribute_map", {})
    field = attribute_map.get("num_hidden_layers", "num_hidden_layers")
    count = vars(config).get(field)
    if field not in own_fields(config) or type(count) is not int:
        return {}
    lists, indices = _by_layer(config, count)
    counted = [len(entries) for name, entries in indices.items() if _COUNTED.search(name)]
    least = max([min(count, sizes.LAYERS), *counted])
    kept = chosen_layers(lists, least) if lists else list(range(least))
    cut: dict[str, Any] = {field: len(kept)}
    for name, entries in lists.items():
        cut[name] = [_entry(name, entries[layer]) for layer in kept]
    for name, entries in indices.items():
        if -count <= min(entries) and max(entries) <= count >= sizes.LAYERS:
            last = len(kept) if max(entries) >= count else len(kept) - 1
            few = range(last - len(entries) + 1, last + 1)
            cut[name] = list(few) if _COUNTED.search(name) else [min(1, last)]
    return cut


def chosen_layers(lists: Mapping[str, list[Any]], least: int) -> list[int]:
    """Return the indices of the layers to keep, in order.

    `lists` holds one entry a layer under each field's name. The first layer of every distinct
    combination of entries is kept, at most `MOST_LAYERS`, and at least `least` layers.
    """
    count = min(len(values) for values in lists.values())
    seen: dict[str, int] = {}
    for layer in range(count):
        seen.setdefault(repr([values[layer] for values in lists.values()]), layer)
    kept = sorted(seen.values())[:MOST_LAYERS]
    spare = [layer for layer in range(count) if layer not in kept]
    return sorted([*kept, *spare[: max(0, least - len(kept))]])


def _by_layer(config: Any, count: int) -> tuple[dict[str, list[Any]], dict[str, list[int]]]:
    """Return the lists with one entry for each of `count` layers, and the lists of indices."""
    lists: dict[str, list[Any]] = {}
    indices: dict[str, list[int]] = {}
    for name in own_fields(config):
        value = vars(config).get(name)
        if not isinstance(value, list | tuple) or not value:
            continue
        if names_layers(name) and all(type(entry) is int for entry in value):
            indices[name] = list(value)
        elif len(value) == count and not _TOKEN.search(name):
            lists[name] = list(value)
    return lists, indices


def _entry(name: str, value: Any) -> Any:
    return sizes.small(name, value) if type(value) is int else value
