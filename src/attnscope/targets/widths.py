"""Reading from a module what it takes: its width, its vocabulary, its longest sequence."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

_WIDTHS = (
    "embed_dim",
    "d_model",
    "hidden_size",
    "n_embd",
    "model_dim",
    "dim",
    "width",
    "embed_size",
    "emb_dim",
    "d_in",
    "in_features",
    "in_dim",
    "input_dim",
)
_POSITIONS = (
    "block_size",
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_seq_length",
    "max_len",
    "max_length",
    "context_length",
    "seq_len",
    "seq_length",
    "n_ctx",
)
_CONFIGS = ("config", "cfg", "args")

_QUERY = re.compile(r"(^|_|w|to)(q|query|queries|qkv|kqv|qk|c_attn|in_proj)(_|$|proj|lin|a|\d)")
_KEY = re.compile(r"(^|_|w|to)(k|key|keys|kv|v|value|values)(_|$|proj|lin|a|\d)")
_VALUE = re.compile(r"(^|_|w|to)(v|value|values|kv)(_|$|proj|lin|a|\d)")
_PLACE = re.compile(r"pos|wpe|rel|bias|type|segment", re.IGNORECASE)


def width_for(model: nn.Module, argument: str, *, keys: bool) -> int | None:
    """Return the number of features of one argument, or None when it can't be told.

    Args:
        model: the module.
        argument: the name of its forward's argument.
        keys: whether the argument becomes keys or values rather than queries.
    """
    if keys:
        pattern = _VALUE if argument.startswith("v") else _KEY
        width = _projection(model, pattern)
        if width is not None:
            return width
    return first_width(model)


def first_width(model: nn.Module) -> int | None:
    """Return the number of features that the module takes, or None when it can't be told.

    Asked in this order: its query projection, a number of its own with a telling name
    (`embed_dim`, `d_model` ...), its first layer.
    """
    width = _projection(model, _QUERY)
    if width is None:
        width = _number(model, _WIDTHS)
    return width if width is not None else _first_layer(model)


def ids_below(model: nn.Module) -> int | None:
    """Return the size of the vocabulary when the module begins with an embedding, else None."""
    leaves = [
        (name, leaf)
        for name, leaf in model.named_modules()
        if not list(leaf.children()) and list(leaf.parameters(recurse=False))
    ]
    places = [name for name, leaf in leaves if _is_place(name, leaf)]
    first = next(((name, leaf) for name, leaf in leaves if name not in places), None)
    if first is None or not isinstance(first[1], nn.Embedding):
        return None
    tables = [
        leaf for name, leaf in leaves if name not in places and isinstance(leaf, nn.Embedding)
    ]
    return min(table.num_embeddings for table in tables)


def most_positions(model: nn.Module) -> int | None:
    """Return the longest sequence that the module says it takes, or None where it says nothing."""
    said = _number(model, _POSITIONS)
    tables = [
        leaf.num_embeddings
        for name, leaf in model.named_modules()
        if _is_place(name, leaf) and re.search(r"pos|wpe", name, re.IGNORECASE)
    ]
    return min([*tables, *([said] if said else [])], default=None)


def _is_place(name: str, leaf: nn.Module) -> Any:
    return isinstance(leaf, nn.Embedding) and _PLACE.search(name.rpartition(".")[2])


def _projection(model: nn.Module, pattern: re.Pattern[str]) -> int | None:
    """Return the input width of the first linear layer whose own name fits."""
    for name, layer in model.named_modules():
        if pattern.search(name.rpartition(".")[2].lower()):
            width = _linear_width(layer)
            if width is not None:
                return width
    return None


def _first_layer(model: nn.Module) -> int | None:
    for layer in model.modules():
        if isinstance(layer, nn.MultiheadAttention):
            return int(layer.embed_dim)
        if isinstance(layer, nn.LayerNorm | nn.RMSNorm):
            return int(layer.normalized_shape[-1])
        width = _linear_width(layer)
        if width is not None:
            return width
    return None


def _linear_width(layer: nn.Module) -> int | None:
    """Return the input features of a linear layer, also of Hugging Face's Conv1D."""
    if isinstance(layer, nn.Linear):
        return layer.in_features
    weight = getattr(layer, "weight", None)
    if type(layer).__name__ == "Conv1D" and weight is not None and weight.ndim == 2:
        return int(weight.shape[0])
    return None


def _number(model: nn.Module, names: tuple[str, ...]) -> int | None:
    """Return the first positive whole number under one of `names`, of the module or its config."""
    holders = [model, *(getattr(model, name, None) for name in _CONFIGS)]
    for holder in holders:
        for name in names:
            value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None
