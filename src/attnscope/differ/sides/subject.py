"""What is compared: a module, a function that runs one, or a plain function of (q, k, v, …)."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.errors import InputError

__all__ = ["Inputs", "Subject"]

Inputs = Mapping[str, Any] | tuple[Any, ...]

_QUERY_NAMES = frozenset("q query queries xq Q".split())
_KEY_NAMES = frozenset("k key keys xk K".split())
_VALUE_NAMES = frozenset("v value values xv V".split())

_MEANINGS: tuple[frozenset[str], ...] = (
    frozenset("input_ids ids tokens token_ids idx x input src inputs inputs_embeds "
              "hidden_states pixel_values".split()),
    frozenset("attention_mask mask padding_mask attn_mask src_mask keep pad_mask".split()),
    frozenset("key_padding_mask src_key_padding_mask".split()),
    frozenset("decoder_input_ids tgt target decoder_ids".split()),
    frozenset("decoder_attention_mask tgt_mask".split()),
    frozenset("position_ids positions pos".split()),
    frozenset("token_type_ids segments segment_ids".split()),
    frozenset("encoder_hidden_states context memory".split()),
)  # fmt: skip
"""Names by which arguments of one meaning go."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One side of a comparison.

    name: as it was given, for messages. run: the model or function. inputs: what was declared to go
    with it; None: nothing was.
    """

    name: str
    run: Callable[..., Any]
    inputs: Inputs | None = None

    @property
    def model(self) -> nn.Module | None:
        """The module, where it is one."""
        return self.run if isinstance(self.run, nn.Module) else None

    @property
    def is_plain(self) -> bool:
        """Whether it is a function of (q, k, v, …), not of a model's inputs."""
        return self.model is None and takes_qkv(self.run)

    @property
    def wants_arrays(self) -> bool:
        """Whether it is a function that is written in NumPy."""
        return self.model is None and _is_numpy(self.run)

    def parameters_of_run(self) -> tuple[inspect.Parameter, ...]:
        """Return the parameters of the function, or of the module's forward."""
        target = self.run.forward if isinstance(self.run, nn.Module) else self.run
        if target is F.scaled_dot_product_attention:  # built in, without a signature of its own
            target = _scaled_dot_product_attention
        try:
            return tuple(inspect.signature(target).parameters.values())
        except (TypeError, ValueError):
            return ()

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run it; a NumPy function gets arrays and its result becomes a tensor."""
        if not self.wants_arrays:
            try:
                return self.run(*args, **kwargs)
            except (AttributeError, RuntimeError, TypeError):
                if not self.is_plain:
                    raise
                with contextlib.suppress(Exception):  # written for arrays after all?
                    return self._with_arrays(args, kwargs)
                raise
        return self._with_arrays(args, kwargs)

    def _with_arrays(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        arrays = [_to_array(value) for value in args]
        named = {key: _to_array(value) for key, value in kwargs.items()}
        output = self.run(*arrays, **named)
        if isinstance(output, (tuple, list)):
            return tuple(_to_tensor(each) for each in output)
        return _to_tensor(output)


def _scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002  torch's own arguments
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> None:
    """Have the parameters of `F.scaled_dot_product_attention`."""


def takes_qkv(run: Callable[..., Any]) -> bool:
    """Return whether the first three parameters of a function are q, k and v by their names."""
    try:
        names = list(inspect.signature(run).parameters)[:3]
    except (TypeError, ValueError):
        return run is F.scaled_dot_product_attention
    known = (_QUERY_NAMES, _KEY_NAMES, _VALUE_NAMES)
    return len(names) == len(known) and all(
        name in meant for name, meant in zip(names, known, strict=True)
    )


def bind(
    subject: Subject, inputs: Inputs, doing: str
) -> tuple[tuple[Any, ...], dict[str, Any], list[str]]:
    """Fit inputs that were made for one side to the signature of the other.

    Returns positional and named arguments, and the names of those that were left out because the
    subject has no parameter for them.

    Raises:
        InputError: the subject needs an argument that the inputs don't have.
    """
    if not isinstance(inputs, Mapping):
        return _positional(subject, tuple(inputs)), {}, []
    parameters = subject.parameters_of_run()
    names = [p.name for p in parameters]
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        loose = {p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD}
        if loose >= set(inputs) or not loose - {"args", "self"}:
            return (), dict(inputs), []
    named: dict[str, Any] = {name: value for name, value in inputs.items() if name in names}
    left = {name: value for name, value in inputs.items() if name not in names}
    for name in list(left):
        meaning = next((meant for meant in _MEANINGS if name in meant), frozenset({name}))
        place = next((p for p in names if p in meaning and p not in named), None)
        if place is not None:
            named[place] = left.pop(name)
    required = [p.name for p in parameters if p.default is p.empty and p.kind in _BY_NAME]
    missing = [name for name in required if name not in named]
    while missing and left:
        named[missing.pop(0)] = left.pop(next(iter(left)))
    if missing:
        raise InputError(
            doing,
            f"{subject.name} needs {', '.join(missing)}, the inputs are {', '.join(inputs)}",
            "give inputs by the names of its forward, or wrap it in a module that takes them",
        )
    return (), named, list(left)


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _positional(subject: Subject, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out repeated tensors (x, x, x) where the subject takes fewer."""
    parameters = subject.parameters_of_run()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters) or not parameters:
        return inputs
    most = sum(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in parameters)
    needed = sum(
        p.default is p.empty and p.kind is not inspect.Parameter.KEYWORD_ONLY for p in parameters
    )
    if len(inputs) < needed:
        return inputs + (inputs[-1],) * (needed - len(inputs)) if len(inputs) == 1 else inputs
    if len(inputs) > most:
        once = tuple(
            each for at, each in enumerate(inputs) if all(each is not b for b in inputs[:at])
        )
        return once[:most]
    return inputs


def _is_numpy(run: Callable[..., Any]) -> bool:
    """Return whether a function, or a helper that it calls, uses NumPy, and none uses torch."""
    function = inspect.unwrap(getattr(run, "func", run))  # of functools.partial
    if (getattr(function, "__module__", None) or "").startswith("attnscope.reference"):
        return True
    hints = " ".join(str(hint) for hint in getattr(function, "__annotations__", {}).values())
    if "Tensor" in hints:
        return False
    packages: set[str] = set()
    _collect_packages(function, packages, set())
    return "torch" not in packages and "numpy" in packages


def _collect_packages(function: Any, packages: set[str], seen: set[int]) -> None:
    """Add the packages whose names a function and its helpers use."""
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen:
        return
    seen.add(id(code))
    for name in _names(code):
        value = function.__globals__.get(name)
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        packages.add(str(home).partition(".")[0])
        if inspect.isfunction(value):
            _collect_packages(value, packages, seen)


def _names(code: Any) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= _names(constant)
    return names


def _to_array(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    plain = value.detach().cpu()
    return plain.double().numpy() if plain.is_floating_point() else plain.numpy()


def _to_tensor(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return torch.from_numpy(np.array(value))
    return value
