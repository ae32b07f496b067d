"""What the modules of a model receive in a run, and which line calls them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.source import Source
from attnscope.checks.lines import calling_line

__all__ = ["Heard", "listening"]


@dataclass(frozen=True, slots=True)
class Heard:
    """A module that was called: sums over what it received, and the author's line that called."""

    module: str
    received: tuple[float, ...]
    source: Source | None


@contextmanager
def listening(model: nn.Module | None) -> Iterator[list[Heard]]:
    """Note, for every module that is called, what it receives and from where."""
    heard: list[Heard] = []
    handles = []
    for path, module in model.named_modules() if model is not None else ():
        if not path:
            continue

        def note(_module: nn.Module, args: Any, kwargs: Any, path: str = path) -> None:
            heard.append(Heard(path, tuple(_prints((args, kwargs))), calling_line()))

        handles.append(module.register_forward_pre_hook(note, with_kwargs=True))
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


def _prints(value: Any) -> Iterator[float]:
    if isinstance(value, Tensor):
        plain = value.detach().double().nan_to_num(0.0, 0.0, 0.0) if value.numel() else None
        if plain is not None and not plain.is_complex():
            yield float(plain.sum())
            yield float((plain * torch.arange(plain.numel()).view(plain.shape).sin()).sum())
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _prints(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _prints(item)
