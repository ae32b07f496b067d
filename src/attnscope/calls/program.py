"""The recorded operations from `q·k` to the context, and how they are run again.

A program is exact whatever the code did: it holds the very functions and arguments, in order, and
runs them on the very tensors. Reading it into a scale, a mask and so on is somebody else's job and
may fail without harm to the replay.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from attnscope.calls.held import Held
from attnscope.calls.source import Source


@dataclass(frozen=True, slots=True)
class Value:
    """A reference, inside recorded arguments, to value `index` of the program."""

    index: int


@dataclass(frozen=True, slots=True)
class RandomState:
    """State of the random generator of one device just before an operation drew from it."""

    device: torch.device
    state: Tensor


@dataclass(frozen=True, slots=True)
class Autocast:
    """The autocast that an operation ran under."""

    device_type: str
    dtype: torch.dtype


Slot: TypeAlias = tuple[int, Any]
"""A recorded argument, and which value it is; else `_PLAIN`, or `_NESTED` where it holds some."""

_PLAIN, _NESTED = -1, -2


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a PyTorch function, its tensors replaced by `Value`.

    defines: the values that its outputs are, in order. An operation that changes a tensor in place
    defines a new value for it; `target` is then the value it changed.
    graded: whether autograd followed it; PyTorch folds some products differently then.
    needs: every value that has to exist before it, earlier changes of the same memory included.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    defines: tuple[int, ...]
    needs: tuple[int, ...]
    target: int | None = None
    random: RandomState | None = None
    autocast: Autocast | None = None
    graded: bool = False
    source: Source | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    _values: tuple[int, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _slots: tuple[Slot, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def spoken(self) -> str:
        """What a sentence calls it: by its name, or by the sign that is written for it."""
        return _SPOKEN.get(self.name, self.name)

    def values(self) -> Iterator[int]:
        """Iterate over the values that the arguments refer to, in order."""
        known = self._values
        if known is None:
            leaves = _leaves((self.args, self.kwargs))
            known = tuple(leaf.index for leaf in leaves if isinstance(leaf, Value))
            object.__setattr__(self, "_values", known)
        return iter(known)

    def filled(self, values: Mapping[int, Tensor]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments with tensors in the place of `Value`s."""
        slots = self._slots
        if slots is None:
            slots = tuple(_slot(each) for each in (*self.args, *self.kwargs.values()))
            object.__setattr__(self, "_slots", slots)
        leaves = [
            values[index] if index >= 0 else (_fill(each, values) if index == _NESTED else each)
            for index, each in slots
        ]
        count = len(self.args)
        return leaves[:count], dict(zip(self.kwargs, leaves[count:], strict=True))


_SPOKEN = {
    "getitem": "indexing ([…])",
    "setitem": "the assignment ([…] = …)",
    **dict.fromkeys(("add", "radd"), "the sum (+)"),
    **dict.fromkeys(("add_", "iadd"), "the sum (+=)"),
    **dict.fromkeys(("sub", "rsub"), "the difference (-)"),
    **dict.fromkeys(("sub_", "isub"), "the difference (-=)"),
    **dict.fromkeys(("mul", "rmul"), "the product (*)"),
    **dict.fromkeys(("mul_", "imul"), "the product (*=)"),
    **dict.fromkeys(("div", "truediv", "rdiv", "rtruediv"), "the quotient (/)"),
    **dict.fromkeys(("rpow", "pow"), "the power (**)"),
    "rmatmul": "the product (@)",
}
"""Functions that are written as signs."""


@dataclass(slots=True)
class Program:
    """Operations in the order they happened, with the tensors that came from outside."""

    inputs: dict[int, Held]
    operations: tuple[Operation, ...]
    _touched: frozenset[int] | None = field(default=None, repr=False)
    _made_at: dict[int, int] | None = field(default=None, repr=False)

    def run(
        self,
        wanted: Iterable[int],
        given: Mapping[int, Tensor] | None = None,
        *,
        graded: bool = False,
        as_made: Collection[int] = (),
    ) -> dict[int, Tensor]:
        """Run what `wanted` needs and return those values.

        given: tensors to use instead of what the program would compute or was recorded with.
        graded: let autograd follow what it followed when it was recorded, for equal bits.
        as_made: those of `wanted` to return as they were made, whatever is written there later.
        The random state of every device is left as it was; each random operation draws again what
        it drew when it was recorded.

        Raises:
            RuntimeError: an operation gives fewer tensors than it did, as `unbind` does where
                `nonzero` finds less in what is `given`; and what PyTorch raises.
        """
        wanted = tuple(wanted)
        values: dict[int, Tensor] = {}
        copies: dict[int, Tensor] = {}
        kept = set(wanted).intersection(as_made)
        chosen = self.needed(wanted, given or {})
        changed = self._changed_inputs()
        for index, tensor in (given or {}).items():
            values[index] = tensor.clone() if index in changed else tensor
        with torch._C.DisableTorchFunction(), _unwarned():  # noqa: SLF001
            for operation in chosen:
                self._load(operation, values, changed, graded=graded)
                with torch.set_grad_enabled(operation.graded) if graded else _as_it_is():
                    _run_one(operation, values, given or {})
                for index in operation.defines if kept else ():
                    if index in kept and index in values:
                        copies[index] = values[index].clone()
        for index in wanted:
            if index not in values:
                values[index] = self.inputs[index].tensor
        return {index: copies.get(index, values[index]) for index in wanted}

    def position_of(self, held: Held) -> int:
        """Return the value that `held` is an input of the program as."""
        return next(index for index, known in self.inputs.items() if known is held)

    def _load(
        self,
        operation: Operation,
        values: dict[int, Tensor],
        changed: frozenset[int],
        *,
        graded: bool,
    ) -> None:
        for index in operation.values():
            if index not in values:
                held = self.inputs[index]
                tensor = held.tensor
                if graded and held.required and not tensor.is_inference():
                    tensor = tensor.detach().requires_grad_()
                values[index] = tensor.clone() if index in changed else tensor

    def needed(self, wanted: tuple[int, ...], given: Mapping[int, Tensor]) -> tuple[Operation, ...]:
        """Return the operations that `wanted` depends on, in order, not going behind `given`."""
        if self._made_at is None:
            self._made_at = {v: at for at, op in enumerate(self.operations) for v in op.defines}
        waiting, chosen = [index for index in wanted if index not in given], set[int]()
        while waiting:
            at = self._made_at.get(waiting.pop())
            if at is not None and at not in chosen:
                chosen.add(at)
                waiting += [index for index in self.operations[at].needs if index not in given]
        return tuple(self.operations[at] for at in sorted(chosen))

    def _changed_inputs(self) -> frozenset[int]:
        """Return the values whose memory some operation writes to, directly or through a view."""
        if self._touched is None:
            touched = {op.target for op in self.operations if op.target is not None}
            for operation in reversed(self.operations):
                views = operation.target is not None or operation.name in _VIEWS
                if views and not touched.isdisjoint(operation.defines):
                    touched.update(operation.values())
            self._touched = frozenset(touched)
        return self._touched


@contextlib.contextmanager
def _unwarned() -> Iterator[None]:
    """Leave out what PyTorch warned of already, when the model ran.

    `warnings.catch_warnings` would make Python forget which warnings it has shown: the next run of
    the model would show them again.
    """
    ignore = ("ignore", None, Warning, None, 0)
    filters = cast("list[Any]", warnings.filters)
    filters.insert(0, ignore)
    try:
        yield
    finally:
        filters.remove(ignore)


_as_it_is = contextlib.nullcontext

_VIEWS = frozenset(
    "view reshape view_as reshape_as flatten unflatten permute transpose movedim t T mT H mH "
    "squeeze unsqueeze expand expand_as broadcast_to narrow select getitem chunk split unbind "
    "split_with_sizes tensor_split contiguous detach data to type float diagonal unfold as_strided "
    "swapaxes real imag view_as_real view_as_complex".split()
)
"""Operations whose output may share the memory of their input."""


def _run_one(operation: Operation, values: dict[int, Tensor], given: Mapping[int, Tensor]) -> None:
    args, kwargs = operation.filled(values)
    if operation.autocast is None and operation.random is None and not _is_autocast_on():
        output = operation.function(*args, **kwargs)
    else:
        with _autocast(operation.autocast), drawing_from(operation.random):
            output = operation.function(*args, **kwargs)
    if operation.name == "setitem":
        output = args[0]
    tensors = (
        [output]
        if isinstance(output, Tensor)
        else [leaf for leaf in _leaves(output) if isinstance(leaf, Tensor)]
    )
    defines = operation.defines
    if len(tensors) < len(defines):
        raise RuntimeError(_FEWER.format(operation.name, len(defines), len(tensors)))
    made = zip(defines, tensors, strict=False)
    values.update((index, tensor) for index, tensor in made if index not in given)


_FEWER = (
    "{} gave {} tensors when it was recorded and gives {} now: how many there are depends on "
    "numbers that were changed"
)


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _leaves(item)
    elif isinstance(tree, slice):
        yield from (tree.start, tree.stop, tree.step)
    else:
        yield tree


def _slot(tree: Any) -> Slot:
    if isinstance(tree, Value):
        return tree.index, tree
    holds = any(isinstance(leaf, Value) for leaf in _leaves(tree))
    return (_NESTED if holds else _PLAIN), tree


def _fill(tree: Any, values: Mapping[int, Tensor]) -> Any:
    return map_leaves(tree, lambda leaf: values[leaf.index] if isinstance(leaf, Value) else leaf)


def map_leaves(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Rebuild recorded arguments with `change` applied to everything that is not a container."""
    if not isinstance(tree, _CONTAINERS):
        return change(tree)
    if isinstance(tree, dict):
        return {key: map_leaves(item, change) for key, item in tree.items()}
    if isinstance(tree, slice):
        return slice(change(tree.start), change(tree.stop), change(tree.step))
    items = [
        map_leaves(item, change) if isinstance(item, _CONTAINERS) else change(item) for item in tree
    ]
    if isinstance(tree, list):
        return items
    return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)


_CONTAINERS = (tuple, list, dict, slice)


def _is_autocast_on() -> bool:
    return bool(torch.is_autocast_enabled("cpu"))


@contextlib.contextmanager
def _autocast(autocast: Autocast | None) -> Iterator[None]:
    if autocast is None:
        with torch.autocast("cpu", enabled=False):
            yield
        return
    with torch.autocast(autocast.device_type, dtype=autocast.dtype, cache_enabled=False):
        yield


@contextlib.contextmanager
def drawing_from(random: RandomState | None) -> Iterator[None]:
    """Draw from the recorded state, then put the generator back."""
    if random is None:
        yield
        return
    before = random_state(random.device)
    _set_random_state(random)
    try:
        yield
    finally:
        _set_random_state(before)


def random_state(device: torch.device) -> RandomState:
    """Return the present state of the generator that operations on `device` draw from."""
    if device.type in {"cpu", "meta"}:
        return RandomState(device, torch.get_rng_state())
    return RandomState(device, torch.get_device_module(device).get_rng_state(device))


def _set_random_state(random: RandomState) -> None:
    if random.device.type in {"cpu", "meta"}:
        torch.set_rng_state(random.state)
    else:
        torch.get_device_module(random.device).set_rng_state(random.state, random.device)
