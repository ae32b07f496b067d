"""One implementation, run once under watch: its calls, its tape, its outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.calls.exact import widened
from attnscope.calls.held import storage_key
from attnscope.calls.source import Source
from attnscope.calls.tolerance import largest_relative
from attnscope.calls.trace import Trace
from attnscope.capture import record
from attnscope.capture.tape import Tape
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.outputs import outputs_of
from attnscope.differ.sides.seen import Seen
from attnscope.differ.sides.subject import Subject
from attnscope.errors import AttnscopeError, InputError

__all__ = ["Side", "ended", "observe", "watch"]

_FAITHFUL = 64.0
"""Roundings times root of the operations that a tape may be from the real run."""


@dataclass(eq=False)
class Side:
    """A subject, and all that was seen of its run; error: what it raised."""

    subject: Subject
    tape: Tape
    trace: Trace
    output: Any
    leaves: dict[str, Tensor] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    error: Exception | None = None

    @cached_property
    def outputs(self) -> dict[str, Tensor]:
        """The float tensors of the output, the main one first."""
        return outputs_of(self.output)

    @cached_property
    def parameters(self) -> dict[int, str]:
        """Values of the tape that are parameters or buffers, with their dotted names."""
        model = self.subject.model
        if model is None:
            return {}
        named = {id(tensor): name for name, tensor in _named_tensors(model)}
        values = self.tape.tensors
        return {
            number: named[id(values[number])]
            for number in self.tape.inputs
            if id(values[number]) in named
        }

    @property
    def tables(self) -> frozenset[torch.dtype]:
        """Half types in which the model holds buffers that its run read."""
        tensors = (self.tape.tensors[value] for value in self.parameters)
        return frozenset(
            each.dtype
            for each in tensors
            if each.dtype in {torch.float16, torch.bfloat16} and not isinstance(each, nn.Parameter)
        )

    @cached_property
    def weights(self) -> frozenset[int]:
        """Values that are parameters, or made of parameters alone."""
        found = {
            number
            for number in self.tape.inputs
            if isinstance(self.tape.tensors[number], nn.Parameter)
        }
        for operation in self.tape.operations:
            if set(operation.needs) <= found:
                found.update(operation.defines)
        return frozenset(found)

    @cached_property
    def located(self) -> list[Located]:
        """The calls with the values that are their stages, those of a backward left out."""
        calls = [call for call in self.trace if not call.recomputed and _is_readable(call)]
        return [Located((call,), self.tape, self.weights) for call in calls]

    def settle(self) -> None:
        """Read now what depends on tensors that the run changed in place and did not make.

        A cache or an input is put back after the run, and then no longer holds what was recorded.
        """
        tensors = self.tape.tensors
        given = {storage_key(tensors[value]) for value in self.tape.inputs} - {0}
        written = (op.target for op in self.tape.operations if op.target is not None)
        if any(storage_key(tensors[value]) in given for value in written):
            for each in self.located:
                len(each.spots)

    @cached_property
    def unread(self) -> tuple[str, ...]:
        """Modules whose attention was seen, with axes that have no names."""
        calls = [call for call in self.trace if not _is_readable(call)]
        return tuple(dict.fromkeys(call.module for call in calls))

    def wide(
        self, values: list[int], given: Mapping[int, Tensor] | None = None
    ) -> dict[int, Tensor]:
        """Return values of the run in float64."""
        return self.tape.run(values, given, wide=True)

    def source_of(self, value: int | None) -> Source | None:
        """Return the line outside of libraries that made a value, where that is known."""
        operation = self.tape.maker.get(value) if value is not None else None
        return operation.source if operation is not None else None

    @cached_property
    def own_values(self) -> dict[int, Tensor]:
        """All stages of all calls as the run made them, in float64 where it can be run so."""
        values = {value for each in self.located for value in each.stage_values}
        if self.is_faithful:
            return self.wide(sorted(values))
        return {value: widened(self.tape.tensors[value].detach()) for value in values}

    def own_value(self, value: int) -> Tensor:
        """Return one value of the run, as `own_values`."""
        if value in self.own_values:
            return self.own_values[value]
        return self.wide([value])[value]

    def stage_of(self, seen: Seen, name: str) -> Tensor:
        """Return q, k, v or the context of a call as it ran, float64, canonical."""
        if self.is_faithful and name in seen.spots:
            return seen.read(name, self.own_values)
        return seen.value(name).detach().double()

    def wide_output(self, tensor: Tensor, given: Mapping[int, Tensor] | None = None) -> Tensor:
        """Return an output of the model in float64, or as it was where that can't be had."""
        value = self.tape.value_of(tensor)
        if value is None or (not self.is_faithful and not given):
            return tensor.detach().double()
        if not given and value in self._wide_outputs:
            return self._wide_outputs[value]
        return self.wide([value], given)[value]

    @cached_property
    def _wide_outputs(self) -> dict[int, Tensor]:
        """The outputs in float64, by value."""
        values = (self.tape.value_of(tensor) for tensor in self.outputs.values())
        return self.wide([value for value in values if value is not None])

    @cached_property
    def roundoff(self) -> float:
        """Machine epsilon of the coarsest type in the run."""
        return max(
            (torch.finfo(t.dtype).eps for t in self.tape.tensors.values() if t.is_floating_point()),
            default=0.0,
        )

    @cached_property
    def is_faithful(self) -> bool:
        """Whether the tape gives what the model gave, and can be run in float64.

        The tape is proven in the model's own type: there it gives the model's output but for
        another order of sums. How far float64 is from that is rounding, however much it is.
        """
        values = [(self.tape.value_of(t), t) for t in self.outputs.values()]
        known = [(value, tensor) for value, tensor in values if value is not None]
        if not known or len(known) < len(values):
            return False
        wanted = [value for value, _ in known]
        try:
            again = self.tape.run(wanted, wide=False)
            _ = self._wide_outputs
        except (RuntimeError, TypeError, AttnscopeError):
            return False
        bound = min(0.5, _FAITHFUL * self.roundoff * max(len(self.tape.operations), 1) ** 0.5)
        return all(largest_relative(again[value], tensor) <= bound for value, tensor in known)


def _is_readable(call: Call) -> bool:
    """Return whether q, k, v and the context of a call can be had in the canonical layout."""
    try:
        for name in ("q", "k", "v", "context"):
            call.evidence.value(name)
    except (AttnscopeError, RuntimeError):
        return False
    return True


def _named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_buffers()
    yield from model.named_parameters()


def observe(subject: Subject, args: tuple[Any, ...], kwargs: dict[str, Any], seed: int) -> Side:
    """Run a subject once under watch; the random state is `seed`, and put back afterwards.

    Raises:
        InputError: the subject raised.
    """
    side = watch(subject, args, kwargs, seed)
    error = side.error
    if error is not None:
        raise InputError(
            f"running {subject.name}",
            f"it raised {type(error).__name__}: {error}",
            "give inputs that it takes, or mend what raises first",
        ) from error
    return side


def watch(
    subject: Subject,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    seed: int,
    *,
    graded: bool = True,
    restores: bool = True,
) -> Side:
    """Run a subject once under watch; what it raised, and all before that, is in the side.

    graded: let autograd follow it. restores: put buffers back that it changed.
    """
    tape, devices = Tape(), list(range(torch.cuda.device_count()))
    args, kwargs, leaves = _with_leaves(args, kwargs, graded=graded)
    trace, output, raised = Trace(), None, None
    unchanged = _same_buffers(subject.model if restores else None)
    with torch.random.fork_rng(devices=devices), _stepwise(), unchanged:
        torch.manual_seed(seed)
        try:
            with (
                torch.set_grad_enabled(graded),
                tape.writing(),
                record(subject.run, keep="all") as trace,
            ):
                output = subject.call(*_copied(args, kwargs))
        except AttnscopeError:
            raise
        except Exception as error:  # noqa: BLE001  code of others may raise anything
            raised = error
        except SystemExit as left:
            raised = ended(left)
        side = Side(subject, tape, trace, output, leaves, error=raised)
        if raised is None:
            side.settle()
    return side


def _with_leaves(
    args: tuple[Any, ...], kwargs: dict[str, Any], *, graded: bool
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Tensor]]:
    """Give each float tensor a copy that gradients reach, if any do; one tensor stays one."""
    made: dict[int, Tensor] = {}
    leaves: dict[str, Tensor] = {}

    def leaf(name: str, value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        if id(value) not in made:
            leaves[name] = made[id(value)] = value.detach().clone().requires_grad_(graded)
        return made[id(value)]

    given = tuple(leaf(str(at), value) for at, value in enumerate(args))
    return given, {name: leaf(name, value) for name, value in kwargs.items()}, leaves


def _copied(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Give the side copies of the leaves that it may change in place; one tensor stays one."""
    made: dict[int, Tensor] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        return made.setdefault(id(value), value.clone())

    return tuple(map(copy, args)), {name: copy(value) for name, value in kwargs.items()}


@contextlib.contextmanager
def _same_buffers(model: nn.Module | None) -> Iterator[None]:
    """Put back what a run writes into buffers: running statistics, caches."""
    buffers = [each for each in model.buffers() if _is_dense(each)] if model is not None else []
    kept = [(buffer, buffer.detach().clone()) for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in kept:
                if not torch.equal(buffer, before):  # kernels write statistics without a version
                    buffer.data.copy_(before)  # unnoticed by a graph that holds the buffer


def _is_dense(tensor: Tensor) -> bool:
    """Return whether a tensor has values that can be compared and written to."""
    return tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_meta


def ended(left: SystemExit) -> RuntimeError:
    """Return an error, raised at the same place, for code of others that ends the process."""
    error = RuntimeError(f"it ends the process: sys.exit({left.code!r})")
    error.__cause__ = left
    return error.with_traceback(left.__traceback__)


@contextlib.contextmanager
def _stepwise() -> Iterator[None]:
    """Keep torch's layers off their fused inference paths, which hide every stage."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
