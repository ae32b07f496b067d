"""How coarsely a cache keeps what it is given: half precision, or whole numbers of one byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.differ.sides.caches import tensors_held

__all__ = ["unit_of_cache"]

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
        yield from tensors_held(cache)
        return
    for module in model.modules():  # the module keeps it
        for name, value in (*vars(module).items(), *module.named_buffers(recurse=False)):
            if name not in {"_parameters", "_modules"}:
                yield from tensors_held(value)
