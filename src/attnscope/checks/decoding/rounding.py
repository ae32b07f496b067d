"""How coarsely a cache keeps what it is given: half precision, or whole numbers of one byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["unit_of_cache"]

_DEEPEST = 5
"""Containers in containers that are looked into."""

_ONE_BYTE = 2.0**-7
"""Unit of whole numbers of one byte."""


def unit_of_cache(cache: Any, model: nn.Module) -> float:
    """Return the unit roundoff of the coarsest tensor that is kept; 0.0 where none is coarse."""
    return max((_unit(each) for each in _kept(cache, model)), default=0.0)


def _unit(tensor: Tensor) -> float:
    if tensor.is_floating_point():
        return torch.finfo(tensor.dtype).eps if tensor.element_size() < 4 else 0.0
    return _ONE_BYTE if tensor.dtype in {torch.int8, torch.uint8} else 0.0


def _kept(cache: Any, model: nn.Module) -> Iterator[Tensor]:
    if cache is not None:
        yield from _tensors(cache, 0)
        return
    for module in model.modules():  # the module keeps it
        for name, value in (*vars(module).items(), *module.named_buffers(recurse=False)):
            if name not in {"_parameters", "_modules"}:
                yield from _tensors(value, 0)


def _tensors(value: Any, depth: int) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    if depth > _DEEPEST or isinstance(value, Tensor | nn.Module | type | str) or callable(value):
        return
    held: Iterable[Any] = vars(value).values() if hasattr(value, "__dict__") else ()
    if isinstance(value, Mapping):
        held = value.values()
    elif isinstance(value, list | tuple):
        held = value
    for each in held:
        yield from _tensors(each, depth + 1)
