"""How each kind of thing that a run may change is put back as it was.

Every function notes a state, and returns what restores it.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from types import CellType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from attnscope.calls.held import version

__all__ = [
    "Undo",
    "content",
    "is_code",
    "of_array",
    "of_cell",
    "of_class",
    "of_generator",
    "of_global",
    "of_gradient",
    "of_items",
    "of_mapping",
    "of_mode",
    "of_slots",
    "of_values",
    "plain_attributes",
    "slots_of",
]


Undo: TypeAlias = Callable[[], None]


_MISSING = object()


def content(cell: CellType) -> object:
    """Return what a cell holds; an object of ours where nothing was put in yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def of_cell(cell: CellType) -> Undo:
    """Keep what a name of an enclosing function stands for."""
    before = content(cell)

    def put_back() -> None:
        if before is not _MISSING and content(cell) is not before:
            cell.cell_contents = before

    return put_back


def of_global(known: dict[str, Any], name: str) -> Undo:
    """Keep what a global name stands for."""
    before = known.get(name, _MISSING)

    def put_back() -> None:
        if before is _MISSING:
            known.pop(name, None)
        elif known.get(name, _MISSING) is not before:
            known[name] = before

    return put_back


def of_mapping(known: dict[Any, Any]) -> Undo:
    """Keep the items of a dict, and their order."""
    before = dict(known)

    def put_back() -> None:
        if list(known) != list(before):
            known.clear()
            known.update(before)
        elif any(known[name] is not value for name, value in before.items()):
            known.update(before)

    return put_back


def of_items(value: list[Any] | set[Any] | deque[Any]) -> Undo:
    """Keep what a container holds."""
    before = list(value)

    def put_back() -> None:
        if len(value) == len(before) and all(a is b for a, b in zip(value, before, strict=True)):
            return
        value.clear()
        value.update(before) if isinstance(value, set) else value.extend(before)

    return put_back


def slots_of(value: object) -> list[str]:
    """Return the names of the attributes that the classes of an object have slots for."""
    named = [vars(kind).get("__slots__", ()) for kind in type(value).__mro__]
    names = [name for each in named for name in ([each] if isinstance(each, str) else each)]
    return [name for name in names if name not in {"__dict__", "__weakref__"}]


def of_slots(value: object) -> Undo:
    """Keep what lies in the slots of an object."""
    before = {name: getattr(value, name, _MISSING) for name in slots_of(value)}

    def put_back() -> None:
        for name, each in before.items():
            if each is _MISSING and hasattr(value, name):
                object.__delattr__(value, name)
            elif each is not _MISSING and getattr(value, name, _MISSING) is not each:
                object.__setattr__(value, name, each)

    return put_back


def of_class(kind: type) -> Undo:
    """Keep what a class holds beside its methods."""
    before = plain_attributes(kind)

    def put_back() -> None:
        for name in [n for n in plain_attributes(kind) if n not in before]:
            delattr(kind, name)
        for name, value in before.items():
            if vars(kind).get(name, _MISSING) is not value:
                setattr(kind, name, value)

    return put_back


def plain_attributes(kind: type) -> dict[str, Any]:
    """Return what a class holds beside its methods."""
    return {n: v for n, v in vars(kind).items() if not n.startswith("__") and not is_code(v)}


def is_code(value: object) -> bool:
    """Return whether a value is a function, a class or a module."""
    wrapped = isinstance(value, (staticmethod, classmethod, property))
    return wrapped or inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)


def of_mode(module: nn.Module) -> Undo:
    """Keep whether a module trains."""
    mode = module.training

    def put_back() -> None:
        if module.training is not mode:
            module.training = mode

    return put_back


def of_generator(generator: torch.Generator) -> Undo:
    """Keep the state of a random generator."""
    state = generator.get_state()

    def put_back() -> None:
        generator.set_state(state)

    return put_back


def of_array(array: Any) -> Undo:
    """Keep the entries of a NumPy array."""
    before = array.copy()

    def put_back() -> None:
        if array.flags.writeable and array.shape == before.shape:
            array[...] = before

    return put_back


def of_gradient(tensor: Tensor) -> Undo:
    """Keep a tensor's gradient, and whether it asks for one."""
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


def of_values(tensor: Tensor) -> Undo:
    """Keep what a tensor holds."""
    strided = tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized
    return _of_entries(tensor) if strided else _of_whole(tensor)


def _of_entries(tensor: Tensor) -> Undo:
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


def _of_whole(tensor: Tensor) -> Undo:
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
