"""What a run may change in a model and in what hangs on it, and how each is put back."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable
from types import CellType, FunctionType
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from attnscope.calls.held import has_values, version
from attnscope.checks.subject.naming import functions_of, names_of, own_function

__all__ = ["kept", "rewritable"]

Undo: TypeAlias = Callable[[], None]

_SMALL = 100_000_000
"""Elements of parameters up to which copies are kept, so that what a run writes comes back."""

_DEEPEST = 5
"""Containers in containers, and objects in objects, that are followed."""

_WIDEST = 10_000
"""Items up to which what lies inside of a container is kept too (vocabularies have more)."""

_OF_OTHERS = (sys.stdlib_module_names - {"argparse", "collections", "types", "__main__"}) | {
    "builtins",
    "torch",
    "numpy",
    "attnscope",
}
"""Packages whose objects are left alone: locks, loggers, streams."""

_MISSING = object()


def rewritable(*roots: object) -> list[Tensor]:
    """Return the tensors of which `kept` puts the values back, whatever a run wrote to them."""
    keeper = _Keeper()
    for root in roots:
        keeper.root(root)
    return keeper.tensors


def kept(*roots: object) -> list[Undo]:
    """Return what puts modules, functions with what they hold, and inputs back as they are now."""
    keeper = _Keeper()
    for root in roots:
        keeper.root(root)
    return keeper.undo


class _Keeper:
    """Walks over what a run can reach, and notes how to put each part back."""

    def __init__(self) -> None:
        self.undo: list[Undo] = []
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
            self.undo.append(_generator(value))
        elif isinstance(value, np.ndarray):
            self.undo.append(_array(value))
        elif depth <= _DEEPEST:
            self._holder(value, depth)

    def _holder(self, value: Any, depth: int) -> None:
        """Keep a container or an object, then what lies in it."""
        inner: Iterable[object] = ()
        if isinstance(value, dict):
            self.undo.append(_mapping(value))
            inner = value.values()
        elif isinstance(value, (list, set, deque)):
            self.undo.append(_items(value))
            inner = value
        elif isinstance(value, (tuple, frozenset)):
            inner = value
        elif type(value).__module__.partition(".")[0] not in _OF_OTHERS and not _is_code(value):
            slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
            self.undo.append(_slotted(value, slots))
            inner = [vars(value)] if hasattr(value, "__dict__") else []
            inner = [*inner, *(getattr(value, name, None) for name in slots)]
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
        mode = module.training
        known = vars(module)
        for value in list(known.values()):
            self.value(value, 1)
        self.undo.append(_mapping(known))
        self.undo.append(lambda: None if module.training is mode else _set_mode(module, mode))
        for kind in type(module).__mro__:
            if not _is_foreign(kind.__module__):
                self._class(kind)

    def _class(self, kind: type) -> None:
        if id(kind) in self._seen:
            return
        self._seen.add(id(kind))
        plain = _plain_attributes(kind)
        for value in plain.values():
            self.value(value, 1)
        self.undo.append(lambda: _put_attributes(kind, plain))
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
            before = _content(cell)
            self.undo.append(_cell(cell, before))
            self._named(before)
        known = function.__globals__
        read, bound = names_of(function.__code__)
        for name in bound:
            self.undo.append(_name(known, name))
        for name in read | bound:
            self._named(known.get(name))

    def _named(self, value: object) -> None:
        self.value(own_function(value) or value, 0)

    # -- tensors -------------------------------------------------------------------------------

    def _tensor(self, tensor: Tensor, *, copied: bool) -> None:
        if isinstance(tensor, nn.Parameter) or (tensor.is_leaf and tensor.grad is not None):
            self.undo.append(_gradient(tensor))
        if copied and has_values(tensor) and not is_lazy(tensor):
            self.tensors.append(tensor)
            self.undo.append(_values(tensor) if _is_plain(tensor) else _whole(tensor))


def _is_foreign(module: str | None) -> bool:
    """Return whether code of a module is a library's, which keeps no state in globals."""
    return (module or "").partition(".")[0] in {*_OF_OTHERS, "transformers"}


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put in yet
        return _MISSING


def _cell(cell: CellType, before: object) -> Undo:
    def put_back() -> None:
        if before is not _MISSING and _content(cell) is not before:
            cell.cell_contents = before

    return put_back


def _name(known: dict[str, Any], name: str) -> Undo:
    """Keep what a global name stands for."""
    before = known.get(name, _MISSING)

    def put_back() -> None:
        if before is _MISSING:
            known.pop(name, None)
        elif known.get(name, _MISSING) is not before:
            known[name] = before

    return put_back


def _mapping(known: dict[Any, Any]) -> Undo:
    before = dict(known)

    def put_back() -> None:
        if list(known) != list(before):
            known.clear()
            known.update(before)
        elif any(known[name] is not value for name, value in before.items()):
            known.update(before)

    return put_back


def _items(value: list[Any] | set[Any] | deque[Any]) -> Undo:
    before = list(value)

    def put_back() -> None:
        if len(value) == len(before) and all(a is b for a, b in zip(value, before, strict=True)):
            return
        value.clear()
        value.update(before) if isinstance(value, set) else value.extend(before)

    return put_back


def _slots(kind: type) -> list[str]:
    named = vars(kind).get("__slots__", ())
    names = [named] if isinstance(named, str) else list(named)
    return [name for name in names if name not in {"__dict__", "__weakref__"}]


def _slotted(value: object, names: list[str]) -> Undo:
    before = {name: getattr(value, name, _MISSING) for name in names}

    def put_back() -> None:
        for name, each in before.items():
            if each is _MISSING and hasattr(value, name):
                object.__delattr__(value, name)
            elif each is not _MISSING and getattr(value, name, _MISSING) is not each:
                object.__setattr__(value, name, each)

    return put_back


def _put_attributes(kind: type, before: dict[str, Any]) -> None:
    for name in [n for n in _plain_attributes(kind) if n not in before]:
        delattr(kind, name)
    for name, value in before.items():
        if vars(kind).get(name, _MISSING) is not value:
            setattr(kind, name, value)


def _plain_attributes(kind: type) -> dict[str, Any]:
    """Return what a class holds beside its methods."""
    return {n: v for n, v in vars(kind).items() if not n.startswith("__") and not _is_code(v)}


def _set_mode(module: nn.Module, mode: bool) -> None:  # noqa: FBT001  a value, not a switch
    module.training = mode


def _is_code(value: object) -> bool:
    wrapped = isinstance(value, (staticmethod, classmethod, property))
    return wrapped or inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)


def _generator(generator: torch.Generator) -> Undo:
    state = generator.get_state()

    def put_back() -> None:
        generator.set_state(state)

    return put_back


def _array(array: Any) -> Undo:
    before = array.copy()

    def put_back() -> None:
        if array.flags.writeable and array.shape == before.shape:
            array[...] = before

    return put_back


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor has strided memory of its own, which can be written to."""
    return tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized


def _gradient(tensor: Tensor) -> Undo:
    gradient, requires = tensor.grad, tensor.requires_grad
    before = None if gradient is None else gradient.detach().clone()

    def put_back() -> None:
        if tensor.requires_grad is not requires:
            tensor.requires_grad_(requires)
        if tensor.grad is not gradient:
            tensor.grad = gradient
        if gradient is not None and before is not None and not _same(gradient, before):
            with torch.no_grad():
                gradient.copy_(before)

    return put_back


def _values(tensor: Tensor) -> Undo:
    """Keep a tensor's values; kernels write running statistics without a new version."""
    storage = tensor.data
    before = tensor.detach().clone()

    def put_back() -> None:
        if tensor.data_ptr() != storage.data_ptr() or tensor.shape != storage.shape:
            tensor.data = storage
        if not _same(tensor.detach(), before):
            with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
                tensor.data.copy_(before)

    return put_back


def _whole(tensor: Tensor) -> Undo:
    """Keep a tensor of another layout: sparse, nested, quantised."""
    before, made = tensor.detach().clone(), version(tensor)

    def put_back() -> None:
        if version(tensor) != made:
            tensor.data = before

    return put_back


def _same(tensor: Tensor, before: Tensor) -> bool:
    """Return whether values are the same, to the bit."""
    if tensor.layout != torch.strided or before.layout != torch.strided:
        return False
    return tensor.shape == before.shape and bool(torch.equal(tensor, before))
