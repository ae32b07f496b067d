"""Which operations of a run drop entries at random, and at what rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.checks.operations import COMPARES, DIVIDES, MULTIPLIES

__all__ = ["Dropped", "dropped", "may_drop"]

_BY_ARGUMENT = {
    "scaled_dot_product_attention": (4, "dropout_p"),
    "_scaled_dot_product_flash_attention": (3, "dropout_p"),
    "_scaled_dot_product_efficient_attention": (5, "dropout_p"),
}
"""Kernels that drop weights whenever their argument says so."""

_ZEROES = MULTIPLIES | DIVIDES | {"masked_fill", "masked_fill_", "where"}
_DRAWS = frozenset("rand_like bernoulli bernoulli_ uniform_".split())


def may_drop(name: str) -> bool:
    """Return whether an operation of this name may drop, or draw what is dropped by hand."""
    return "dropout" in name or "attention" in name or name in _DRAWS


@dataclass(frozen=True, slots=True)
class Dropped:
    """An operation that drops; rate: the share of entries; by_hand: no dropout of PyTorch's."""

    operation: Operation
    rate: float
    by_hand: bool = False


def dropped(tape: Tape) -> Iterator[Dropped]:
    """Iterate over the operations that drop, in order; those at rate 0 or 1 do not."""
    for operation in tape.operations:
        rate = _rate(operation)
        if rate is not None and 0 < rate < 1:
            yield Dropped(operation, rate)
        elif operation.name in _DRAWS:
            yield from _by_hand(tape, operation)


def _rate(operation: Operation) -> float | None:
    name = operation.name.removesuffix("_")
    if name in _BY_ARGUMENT:
        at, key = _BY_ARGUMENT[name]
        return _number(_argument(operation, at, key, 0.0))
    if "dropout" not in name:
        return None
    named = operation.kwargs
    rate = _argument(operation, 1, "p", 0.5)
    trains = named.get("train", _argument(operation, 2, "training", True))  # noqa: FBT003  default
    return _number(rate) if trains is True else None


def _argument(operation: Operation, at: int, key: str, default: Any) -> Any:
    if key in operation.kwargs:
        return operation.kwargs[key]
    return operation.args[at] if len(operation.args) > at else default


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _by_hand(tape: Tape, draw: Operation) -> Iterator[Dropped]:
    """A random mask of zeros and ones that something is multiplied with."""
    masks = [draw.defines[0]] if "bernoulli" in draw.name else []
    for user in tape.users.get(draw.defines[0], ()):
        if user.name in COMPARES:
            masks += user.defines
    for mask in masks:
        tensor = tape.tensors[mask]
        share = 1.0 - float(tensor.double().mean()) if tensor.numel() else 0.0
        for user in _users_of_cast(tape, mask):
            if user.name in _ZEROES and 0 < share < 1:
                yield Dropped(user, share, by_hand=True)
                return


def _users_of_cast(tape: Tape, value: int) -> Iterator[Operation]:
    """Iterate over what reads a mask, casts and reshapes looked through."""
    waiting = [value]
    for number in waiting:
        for user in tape.users.get(number, ()):
            if user.name in {
                "to",
                "float",
                "type_as",
                "view",
                "reshape",
                "unsqueeze",
                "div",
                "div_",
            }:
                waiting += user.defines
            yield user
