"""What loading a state dict left out, watched while a model is built.

`load_state_dict(strict=False)` says what it didn't find, and nearly everybody drops the answer. A
finished module shows nothing of it.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.held import has_values
from attnscope.calls.source import Source
from attnscope.checks.lines import is_the_users

__all__ = ["Load", "loads_of", "loads_watched"]


@dataclass(frozen=True, slots=True)
class Load:
    """One call of load_state_dict.

    missing: parameters that were not in the state dict; unexpected: shapes of stored tensors that
    fit no name; kept: parameters whose stored values were those that they had already; changed:
    those that got others. sums: of the entries of missing and kept ones, right after the load.
    """

    missing: tuple[str, ...]
    unexpected: Mapping[str, tuple[int, ...]]
    kept: tuple[str, ...]
    changed: tuple[str, ...]
    sums: Mapping[str, float]
    source: Source | None

    def untouched(self, name: str, parameter: Tensor) -> bool:
        """Return whether a parameter still holds what it held right after the load."""
        return name in self.sums and self.sums[name] == _sum(parameter)


_LOADS: dict[int, tuple[weakref.ref[nn.Module], list[Load]]] = {}
"""By identity: modules of other people may compare, or refuse to be hashed."""


def loads_of(model: nn.Module) -> Iterator[tuple[str, Load]]:
    """Iterate over what was loaded into a model or parts of it, with the path of the part."""
    for path, module in model.named_modules():
        held, loads = _LOADS.get(id(module), (None, []))
        if held is not None and held() is module:
            for load in loads:
                yield path, load


@contextlib.contextmanager
def loads_watched() -> Iterator[None]:
    """Note what every load_state_dict finds and misses; it does what it did."""
    original = nn.Module.load_state_dict
    nn.Module.load_state_dict = _watching(original)  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.load_state_dict = original  # type: ignore[method-assign]


def _watching(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load_state_dict(self: nn.Module, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        stored = dict(state_dict) if isinstance(state_dict, Mapping) else {}
        given = {n: t for n, t in stored.items() if isinstance(t, Tensor)}
        kept = tuple(n for n, p in self.named_parameters() if n in given and _same(given[n], p))
        result = original(self, state_dict, *args, **kwargs)
        _note(self, given, kept)
        return result

    return load_state_dict


def _note(module: nn.Module, given: Mapping[str, Tensor], kept: tuple[str, ...]) -> None:
    known = dict(module.named_parameters(remove_duplicate=False))
    names = {*known, *(name for name, _ in module.named_buffers(remove_duplicate=False))}
    tied = {id(known[name]) for name in known if name in given}
    missing = tuple(n for n, p in known.items() if n not in given and id(p) not in tied)
    load = Load(
        missing,
        {name: tuple(tensor.shape) for name, tensor in given.items() if name not in names},
        kept,
        tuple(name for name in known if name in given and name not in kept),
        {name: _sum(known[name]) for name in (*missing, *kept) if name in known},
        _caller(),
    )
    loads = _LOADS.setdefault(id(module), (weakref.ref(module, _forgetting(id(module))), []))[1]
    loads.append(load)


def _caller() -> Source | None:
    """Return the nearest line outside attnscope and PyTorch."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  the stack has no other door
    while frame is not None and not is_the_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Source(file, line, frame.f_code.co_qualname, linecache.getline(file, line).strip())


def _forgetting(key: int) -> Callable[[object], None]:
    def forget(_dead: object) -> None:
        _LOADS.pop(key, None)

    return forget


def _same(stored: Tensor, parameter: Tensor) -> bool:
    """Return whether a stored tensor holds what the parameter holds already."""
    fits = stored.shape == parameter.shape and {stored.layout, parameter.layout} == {torch.strided}
    if not fits or not (has_values(stored) and has_values(parameter)):
        return False
    return torch.equal(stored.detach().to(parameter.device, parameter.dtype), parameter.detach())


def _sum(parameter: Tensor) -> float:
    if not has_values(parameter) or parameter.layout != torch.strided:
        return float("nan")
    return float(parameter.detach().double().sum())
