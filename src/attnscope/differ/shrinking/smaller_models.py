"""Models with a config, built again with fewer layers, heads and features."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from attnscope.differ.sides.subject import Subject

__all__ = ["SIZES", "changes", "rebuilt", "sizes_of"]

SIZES = {
    "layers": ("num_hidden_layers", "num_layers", "num_decoder_layers", "n_layer"),
    "heads": ("num_attention_heads", "num_heads", "n_head"),
    "width": ("hidden_size", "d_model", "n_embd"),
}
"""What configs call the sizes of a model."""

_KV_HEADS = "num_key_value_heads"


def sizes_of(model: nn.Module) -> dict[str, int]:
    """Return layers, heads and width of a model, as far as its config names them."""
    config = getattr(model, "config", None)
    found = {name: _read(config, names) for name, names in SIZES.items()}
    return {name: size for name, size in found.items() if size is not None}


def changes(candidate: nn.Module, reference: nn.Module) -> Iterator[dict[str, Any]]:
    """Iterate over what could be smaller in both configs: one layer, then one group of heads.

    Nothing, where the two don't have the same sizes under the same names.
    """
    ours, theirs = getattr(candidate, "config", None), getattr(reference, "config", None)
    if ours is None or theirs is None or isinstance(ours, Mapping):
        return
    layers = {name: 1 for name in SIZES["layers"] if _same(name, ours, theirs)}
    if any(getattr(theirs, name) > 1 for name in layers):
        kinds = getattr(theirs, "layer_types", None)
        yield {**layers, "layer_types": kinds[:1]} if isinstance(kinds, list) else layers
    heads = next((name for name in SIZES["heads"] if _same(name, ours, theirs)), None)
    width = next((name for name in SIZES["width"] if _same(name, ours, theirs)), None)
    if heads is None or width is None:
        return
    count, shared = getattr(theirs, heads), _read(theirs, (_KV_HEADS,))
    group = count // shared if shared else 1
    if group < count:
        size = _read(theirs, ("head_dim",)) or getattr(theirs, width) // count
        smaller = {heads: group, width: group * size}
        yield {**smaller, _KV_HEADS: 1} if shared else smaller


def rebuilt(side: Subject, change: Mapping[str, Any]) -> Subject:
    """Return a side built again from a changed copy of its config, with parameters from seed 0."""
    model: Any = side.model
    config = copy.deepcopy(model.config)
    for name, value in change.items():
        setattr(config, name, value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = type(model)(config).train(model.training)
    return Subject(side.name, made, side.inputs)


def _same(name: str, ours: Any, theirs: Any) -> bool:
    size = _read(ours, (name,))
    return size is not None and size == _read(theirs, (name,))


def _read(config: Any, names: tuple[str, ...]) -> int | None:
    found = (getattr(config, name, None) for name in names)
    return next((size for size in found if isinstance(size, int) and size > 0), None)
