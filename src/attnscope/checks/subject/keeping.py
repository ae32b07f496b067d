"""What a run may change in a model and in what hangs on it."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections import deque
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from attnscope.calls.held import has_values
from attnscope.checks.subject import undoing
from attnscope.checks.subject.libraries import FRAMEWORKS, MODEL_LIBRARIES
from attnscope.checks.subject.naming import functions_of, names_of, own_function

__all__ = ["kept", "rewritable"]


_SMALL = 100_000_000
"""Elements of parameters up to which copies are kept, so that what a run writes comes back."""

_DEEPEST = 5
"""Containers in containers, and objects in objects, that are followed."""

_WIDEST = 10_000
"""Items up to which what lies inside of a container is kept too (vocabularies have more)."""

_OF_OTHERS = (
    (sys.stdlib_module_names - {"argparse", "collections", "types", "__main__"})
    | {"builtins", "numpy"}
    | FRAMEWORKS
)
"""Packages whose objects are left alone: locks, loggers, streams."""


def rewritable(*roots: object) -> list[Tensor]:
    """Return the tensors of which `kept` puts the values back, whatever a run wrote to them."""
    keeper = _Keeper()
    for root in roots:
        keeper.root(root)
    return keeper.tensors


def kept(*roots: object) -> list[undoing.Undo]:
    """Return what puts modules, functions with what they hold, and inputs back as they are now."""
    keeper = _Keeper()
    for root in roots:
        keeper.root(root)
    return keeper.undo


class _Keeper:
    """Walks over what a run can reach, and notes how to put each part back."""

    def __init__(self) -> None:
        self.undo: list[undoing.Undo] = []
        self.tensors: list[Tensor] = []
        self._seen: set[int] = set()
        self._alive: list[object] = []

    def root(self, root: object) -> None:
        """Keep a module, an input, or all that a function can reach."""
        if isinstance(root, functools.partial):
            for each in (root.func, *root.args, *root.keywords.values()):
                self.root(each)
        elif inspect.ismethod(root):
            self.root(root.__self__)
        elif inspect.isfunction(root):
            self._function(root)
        else:
            self.value(root, 0)

    def value(self, value: object, depth: int) -> None:
        """Keep the contents of anything that has some."""
        if isinstance(value, FunctionType):
            self._function(value)
            return
        if isinstance(value, (int, float, str, bytes, type, type(None))) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._alive.append(value)
        if isinstance(value, nn.Module):
            self._model(value)
        elif isinstance(value, Tensor):
            self._tensor(value, copied=True)
        elif isinstance(value, torch.Generator):
            self.undo.append(undoing.of_generator(value))
        elif isinstance(value, np.ndarray):
            self.undo.append(undoing.of_array(value))
        elif depth <= _DEEPEST:
            self._holder(value, depth)

    def _holder(self, value: Any, depth: int) -> None:
        """Keep a container or an object, then what lies in it."""
        inner: Iterable[object] = ()
        if isinstance(value, dict):
            self.undo.append(undoing.of_mapping(value))
            inner = value.values()
        elif isinstance(value, (list, set, deque)):
            self.undo.append(undoing.of_items(value))
            inner = value
        elif isinstance(value, (tuple, frozenset)):
            inner = value
        elif type(value).__module__.partition(".")[0] not in _OF_OTHERS and not undoing.is_code(
            value
        ):
            self.undo.append(undoing.of_slots(value))
            inner = [vars(value)] if hasattr(value, "__dict__") else []
            inner = [*inner, *(getattr(value, name, None) for name in undoing.slots_of(value))]
        everything = list(inner)
        for each in everything if len(everything) <= _WIDEST else ():
            self.value(each, depth + 1)

    # -- modules -------------------------------------------------------------------------------

    def _model(self, model: nn.Module) -> None:
        parameters = list(itertools.filterfalse(is_lazy, model.parameters()))
        copied = sum(p.numel() for p in parameters) <= _SMALL
        for parameter in parameters:
            if id(parameter) not in self._seen:
                self._seen.add(id(parameter))
                self._tensor(parameter, copied=copied)
        for buffer in model.buffers():
            self.value(buffer, 0)
        for module in model.modules():
            self._seen.add(id(module))
            self._module(module)

    def _module(self, module: nn.Module) -> None:
        """Keep a module's mode and attributes, and what its class and its forward hold."""
        known = vars(module)
        for value in list(known.values()):
            self.value(value, 1)
        self.undo.append(undoing.of_mapping(known))
        self.undo.append(undoing.of_mode(module))
        for kind in type(module).__mro__:
            if not _is_foreign(kind.__module__):
                self._class(kind)

    def _class(self, kind: type) -> None:
        if id(kind) in self._seen:
            return
        self._seen.add(id(kind))
        for value in undoing.plain_attributes(kind).values():
            self.value(value, 1)
        self.undo.append(undoing.of_class(kind))
        for function in functions_of(kind):
            self._function(function)

    def _function(self, function: FunctionType) -> None:
        """Keep what a function holds and names, and what the functions that it names do."""
        if id(function) in self._seen or _is_foreign(function.__module__):
            return
        self._seen.add(id(function))
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.value(value, 1)
        for cell in function.__closure__ or ():
            self.undo.append(undoing.of_cell(cell))
            self._named(undoing.content(cell))
        known = function.__globals__
        read, bound = names_of(function.__code__)
        for name in bound:
            self.undo.append(undoing.of_global(known, name))
        for name in read | bound:
            self._named(known.get(name))

    def _named(self, value: object) -> None:
        self.value(own_function(value) or value, 0)

    # -- tensors -------------------------------------------------------------------------------

    def _tensor(self, tensor: Tensor, *, copied: bool) -> None:
        if isinstance(tensor, nn.Parameter) or (tensor.is_leaf and tensor.grad is not None):
            self.undo.append(undoing.of_gradient(tensor))
        if copied and has_values(tensor) and not is_lazy(tensor):
            self.tensors.append(tensor)
            self.undo.append(undoing.of_values(tensor))


def _is_foreign(module: str | None) -> bool:
    """Return whether code of a module is a library's, which keeps no state in globals."""
    return (module or "").partition(".")[0] in _OF_OTHERS | MODEL_LIBRARIES
