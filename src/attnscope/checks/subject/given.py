"""The inputs of a subject by the names of its forward's arguments, to be changed one at a time."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from attnscope.checks.attributes import attribute
from attnscope.errors import InputError

__all__ = ["Given"]

_LOOSE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Arguments of one run, by name.

    values: by the name of the parameter ("args[0]" where the forward takes any number), or, for
    what lies in a dict that is an argument, by its key there. parameters: what the forward takes;
    positional: names that are handed on by position, in order; batches: which keys make up each
    argument that is a dict of tensors.
    """

    values: Mapping[str, Any]
    parameters: tuple[inspect.Parameter, ...]
    positional: tuple[str, ...] = ()
    batches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Callable[..., Any], inputs: Any) -> Given:
        """Return `inputs` (a dict, a tuple, a tensor, or nothing) by the names of `run`.

        Raises:
            InputError: the forward can't be called with them.
        """
        args, kwargs = _as_call(inputs)
        parameters = parameters_of(run)
        if not parameters:
            named = {f"args[{at}]": value for at, value in enumerate(args)}
            return cls({**named, **kwargs}, (), tuple(named))
        try:
            bound = inspect.Signature(list(parameters)).bind(*args, **kwargs)
        except TypeError as error:
            wanted = ", ".join(p.name for p in parameters)
            raise InputError(
                f"giving the inputs to {_name(run)}",
                f"{error}; it takes ({wanted})",
                "give a dict of keyword arguments, a tuple of positional ones, or one tensor",
            ) from error
        values: dict[str, Any] = {}
        positional: list[str] = []
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                loose = {f"{name}[{at}]": each for at, each in enumerate(value)}
                values |= loose
                positional += list(loose)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                values |= value
            else:
                values[name] = value
                if kind is inspect.Parameter.POSITIONAL_ONLY or len(positional) < len(args):
                    positional.append(name)
        return _opened(cls(values, parameters, tuple(positional)))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and the named arguments."""
        whole = dict(self.values)
        for name, keys in self.batches.items():
            whole[name] = {key: whole.pop(key) for key in keys if key in whole}
        present = list(itertools.takewhile(whole.__contains__, self.positional))
        return tuple(whole[n] for n in present), {
            k: v for k, v in whole.items() if k not in present
        }

    def call(self, run: Callable[..., Any]) -> Any:
        """Call `run` with the values; tensors are handed over as copies, so that none is changed.

        One tensor that is given twice stays one.
        """
        copies: dict[int, Tensor] = {}

        def copied(value: Any) -> Any:
            if isinstance(value, Tensor):
                if id(value) not in copies:
                    copies[id(value)] = _copy(value)
                return copies[id(value)]
            if type(value) in {list, tuple}:
                return type(value)(map(copied, value))
            return {k: copied(v) for k, v in value.items()} if type(value) is dict else value

        args, named = self.arguments()
        return run(*map(copied, args), **{k: copied(v) for k, v in named.items()})

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the arguments that are tensors."""
        for name, value in self.values.items():
            if isinstance(value, Tensor):
                yield name, value

    def accepts(self, name: str) -> bool:
        """Return whether the forward has an argument of that name, given or not."""
        return any(p.name == name and p.kind not in _LOOSE for p in self.parameters)

    def with_values(self, **values: Any) -> Given:
        """Return the inputs with other values for some arguments."""
        return replace(self, values={**self.values, **values})

    def mapped(self, change: Callable[[str, Tensor], Tensor]) -> Given:
        """Return the inputs with `change(name, tensor)` in the place of each tensor.

        Tensors that are one (self-attention that is called as f(x, x, x)) are changed once.
        """
        made: dict[int, Tensor] = {}
        values = dict(self.values)
        for name, tensor in self.tensors():
            if id(tensor) not in made:
                made[id(tensor)] = change(name, tensor)
            values[name] = made[id(tensor)]
        return replace(self, values=values)

    def same_as(self, name: str) -> tuple[str, ...]:
        """Return the names of all arguments that are the very tensor of `name`, itself included."""
        tensor = self.values[name]
        return tuple(other for other, value in self.values.items() if value is tensor)

    def replaced(self, name: str, tensor: Any) -> Given:
        """Return the inputs with another tensor for `name` and whatever is the same tensor."""
        return self.with_values(**dict.fromkeys(self.same_as(name), tensor))


def parameters_of(run: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of a function, or of a module's forward; none where they are hidden."""
    target = run.forward if isinstance(run, nn.Module) else run
    try:
        return tuple(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return ()


def _copy(tensor: Tensor) -> Tensor:
    copy = tensor.detach().clone()
    return copy.requires_grad_(tensor.requires_grad) if tensor.requires_grad else copy


def _as_call(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if inputs is None:
        return (), {}
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    raise InputError(
        "reading the inputs of a check",
        f"they are of type {type(inputs).__name__}",
        "give a dict of keyword arguments, a tuple of positional ones, or one tensor",
    )


def _opened(given: Given) -> Given:
    """Take dicts of tensors apart: forward(batch) means what the entries of the batch mean."""
    values, batches = dict(given.values), {}
    for name, value in given.values.items():
        if type(value) is not dict or not any(isinstance(v, Tensor) for v in value.values()):
            continue
        taken = (set(values) - {name}) | {p.name for p in given.parameters}
        if all(isinstance(key, str) and key not in taken for key in value):
            del values[name]
            values |= value
            batches[name] = tuple(value)
    return replace(given, values=values, batches=batches)


def _name(run: Callable[..., Any]) -> str:
    return attribute(run, "__name__") or type(run).__name__
