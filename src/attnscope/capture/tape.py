"""Writes down every operation of a run, so that any part of it can be run again.

Capture keeps what lies between `q·k` and the context. A comparison of two implementations also
needs what lies around it: from the inputs to q, from the context to the output, with other values
in the place of some. A tape keeps all of it, and so costs the memory of all activations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.exact import exact, widened
from attnscope.calls.held import Held, has_values, storage_key, version
from attnscope.calls.program import Operation, Program, Value, map_leaves, random_state
from attnscope.capture.functions import Kind, operation_name
from attnscope.capture.interceptor import Interceptor
from attnscope.capture.operands import tensors_in
from attnscope.capture.ownwork import OwnWork
from attnscope.capture.place import find_source
from attnscope.capture.step import Step, autocast_on, flat, is_plain, shapes_of

__all__ = ["Tape"]


class Tape:
    """All operations of one run, in order, as a program, and the tensors that they made."""

    def __init__(self) -> None:
        """Start with nothing written."""
        self.inputs: dict[int, Held] = {}
        self.operations: list[Operation] = []
        self.tensors: dict[int, Tensor] = {}
        self.faults: list[str] = []
        self._latest: dict[int, int] = {}
        self._history: dict[int, dict[int, int]] = defaultdict(dict)
        self._changes: dict[int, tuple[int, ...]] = {}
        self._held: dict[int, list[Held]] = defaultdict(list)
        self._exactly: dict[int, Tensor] = {}
        self._next = 0

    # -- writing -------------------------------------------------------------------------------

    def writing(self) -> Interceptor:
        """Return the context to run a model in, around `record`, which hands every function on."""
        return Interceptor(self._run, {})

    def _run(
        self,
        func: Callable[..., Any],
        kind: Kind,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run `func` and write it down."""
        tensors = list(tensors_in((*args, kwargs)))
        if not tensors:
            return func(*args, **kwargs)
        step = Step(operation_name(func), func, kind, args, kwargs, tensors)
        with self._own_work(step.name):
            self._prepare(step)
        output = step.output = func(*args, **kwargs)
        if step.name == "__iter__":
            pieces = step.output = tuple(output)
            step.name, step.function, step.args = "unbind", torch.unbind, (args[0], 0)
            output = iter(pieces)
        if step.plain:
            with self._own_work(step.name):
                self._write(step)
        return output

    def _own_work(self, name: str) -> OwnWork:
        return OwnWork(lambda error: self.faults.append(f"{name}: {error!r}"))

    def _prepare(self, step: Step) -> None:
        step.plain = all(is_plain(tensor) and has_values(tensor) for tensor in step.tensors)
        if not step.plain:
            return
        if step.kind is Kind.RANDOM or "dropout" in step.name or "attention" in step.name:
            step.random = random_state(step.tensors[0].device)
        for tensor in step.tensors:
            self._value(tensor)
        for target in (*step.targets(), *_statistics(step)):
            for held in self._held.pop(storage_key(target), []):
                held.freeze()

    def _value(self, tensor: Tensor) -> int:
        """Return the value that `tensor` now is; a tensor from outside becomes an input."""
        known = self._latest.get(id(tensor))
        if known is None:
            number = self._number(tensor)
            held = self.inputs[number] = Held(tensor)
            self._held[storage_key(tensor)].append(held)
            return number
        if version(tensor) in self._history[id(tensor)]:
            return known
        return self._changed(tensor, known)

    def _changed(self, tensor: Tensor, known: int) -> int:
        """Give a tensor a new value whose memory was written to through another one."""
        needs = (known, *self._changes.get(storage_key(tensor), ()))
        shape = (tuple(tensor.shape),)
        number = self._number(tensor)
        self.operations.append(
            Operation("written", _itself, (Value(known),), {}, (number,), needs, shapes=shape)
        )
        return number

    def _number(self, tensor: Tensor) -> int:
        number, self._next = self._next, self._next + 1
        self._latest[id(tensor)] = number
        self._history[id(tensor)][version(tensor)] = number
        self.tensors[number] = tensor
        return number

    def _write(self, step: Step) -> None:
        target = step.target()
        written = [target] if step.name == "setitem" and target is not None else flat(step.output)
        outputs = [
            out for out in written if out is target or all(out is not t for t in step.tensors)
        ]
        if not outputs:  # such as `contiguous` of what is contiguous already
            return
        before = self._latest.get(id(target)) if target is not None else None
        needs = dict.fromkeys(self._latest[id(tensor)] for tensor in step.tensors)
        for tensor in step.tensors:
            needs.update(dict.fromkeys(self._changes.get(storage_key(tensor), ())))

        def place(leaf: Any) -> Any:
            return Value(self._latest[id(leaf)]) if isinstance(leaf, Tensor) else leaf

        kwargs = {key: value for key, value in step.kwargs.items() if key != "out"}
        args, kwargs = map_leaves(step.args, place), map_leaves(kwargs, place)
        defines = tuple(self._number(out) for out in outputs)
        self.operations.append(
            Operation(
                step.name,
                step.function,
                args,
                kwargs,
                defines,
                tuple(needs),
                before,
                step.random,
                autocast_on(step.tensors[0].device.type),
                step.graded,
                find_source(),
                tuple(shapes_of(outputs)),
            )
        )
        if target is not None:
            self._changes[storage_key(target)] = defines

    # -- reading -------------------------------------------------------------------------------

    @cached_property
    def program(self) -> Program:
        """The whole run; asked for once it is over."""
        return Program(self.inputs, tuple(self.operations))

    @cached_property
    def exact(self) -> Program:
        """The whole run in float64."""
        return exact(self.program)

    def value_of(self, what: Tensor | Held) -> int | None:
        """Return the value that a tensor now is, or was when it was held; None: not known."""
        tensor, made = what.origin if isinstance(what, Held) else (what, version(what))
        known = self._history.get(id(tensor), {})
        number = known.get(made, next(iter(known.values()), None))
        return number if number is not None and self.tensors[number] is tensor else None

    def run(
        self,
        wanted: Iterable[int],
        given: Mapping[int, Tensor] | None = None,
        *,
        wide: bool,
        as_made: Collection[int] = (),
    ) -> dict[int, Tensor]:
        """Run what `wanted` needs, with the tensors of `given` in the place of their values.

        wide: in float64; the tensors of `given` are widened. as_made: as of `Program.run`.
        """
        program = self.exact if wide else self.program
        given = {key: widened(t).detach() if wide else t for key, t in (given or {}).items()}
        with torch.no_grad():
            return program.run(tuple(wanted), given, as_made=as_made)

    def as_made(self, wanted: Iterable[int]) -> dict[int, Tensor]:
        """Return values of the run in float64, each before its memory was written to in place.

        They are worked out once, and must not be changed.
        """
        wanted = tuple(wanted)
        missing = [value for value in wanted if value not in self._exactly]
        if missing:
            self._exactly.update(self.run(missing, wide=True, as_made=self.overwritten))
        return {value: self._exactly[value] for value in wanted}

    @cached_property
    def overwritten(self) -> frozenset[int]:
        """Values in whose memory some operation writes, directly or through a view."""
        targets = (self.tensors[op.target] for op in self.operations if op.target is not None)
        written = {storage_key(tensor) for tensor in targets} - {0}
        return frozenset(
            value for value, tensor in self.tensors.items() if storage_key(tensor) in written
        )

    @cached_property
    def maker(self) -> dict[int, Operation]:
        """The operation that made each value."""
        return {number: op for op in self.operations for number in op.defines}

    @cached_property
    def users(self) -> dict[int, list[Operation]]:
        """The operations that read each value, in order."""
        found: dict[int, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            for number in dict.fromkeys(operation.values()):
                found[number].append(operation)
        return found


def _statistics(step: Step) -> list[Tensor]:
    """Return the running statistics that a normalisation over the batch writes to."""
    if not step.name.endswith(("batch_norm", "instance_norm")):
        return []
    named = [step.kwargs.get(name) for name in ("running_mean", "running_var")]
    return [each for each in (*step.args[1:3], *named) if isinstance(each, Tensor)]


def _itself(tensor: Tensor) -> Tensor:
    return tensor
