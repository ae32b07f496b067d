"""One call of a torch operation, with its tensors replaced by what is known of their axes.

The rules read arguments through this class, so that each says only what is its own: positions and
names of arguments, negative axes, tuples against varargs are settled here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

from attnscope.capture.layout.algebra import (
    Axis,
    Layout,
    combine,
    fresh_axis,
    repeated_axis,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class UnfollowedError(Exception):
    """A rule can't say what an operation did to the axes; ``follow`` turns it into None."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A tensor of which the shape alone is known."""

    shape: tuple[int, ...]
    is_bool: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """A call: bare name, arguments, and the shape that came out.

    ``new_origin`` hands out numbers for axes that begin at this operation.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    out_shape: tuple[int, ...]
    output_index: int
    new_origin: Callable[[], int]

    def argument(self, position: int, *names: str, default: Any = None) -> Any:
        """The argument at a position or under one of its names."""
        if position < len(self.args):
            return self.args[position]
        return next((self.kwargs[name] for name in names if name in self.kwargs), default)

    def layout(self) -> Layout:
        """The layout of the first tensor."""
        first = self.argument(0, "input", "self")
        if not isinstance(first, Layout):
            raise UnfollowedError
        return first

    def integer(self, position: int, *names: str, default: int | None = None) -> int:
        """An argument that has to be a plain integer."""
        value = self.argument(position, *names, default=default)
        if not is_integer(value):
            raise UnfollowedError
        return int(value)

    def integers(self, position: int, *names: str) -> tuple[int, ...]:
        """Integers given one by one from a position on, as one sequence, or under a name."""
        given = self.args[position:]
        return as_integers(given if len(given) > 1 else self.argument(position, *names))

    def some_integers(self, position: int, *names: str) -> tuple[int, ...]:
        """An argument that is one integer or a sequence of them."""
        return as_integers(self.argument(position, *names))

    def axis(self, position: int, *names: str, ndim: int, default: int | None = None) -> int:
        """An argument that names one of ``ndim`` axes, counted from the front."""
        return counted(self.integer(position, *names, default=default), ndim)

    def opaque(self, length: int) -> Axis:
        """An axis whose positions can't be told from older origins."""
        return fresh_axis(length, self.new_origin(), opaque=True)

    def new(self, length: int, axis: int) -> Axis:
        """An axis that begins with this operation's output, of which it is ``axis``."""
        return fresh_axis(length, self.new_origin(), axis)

    def scrambled(self, axis: Axis, length: int) -> Axis:
        """``length`` positions of an axis in an order that isn't known; copies stay copies."""
        return repeated_axis(length) if all(a.repeated for a in axis) else self.opaque(length)

    def distinct(self, axis: Axis) -> Axis:
        """The axis after its positions were treated differently: nothing is a copy any more."""
        return tuple(
            replace(atom, repeated=False, origin=self.new_origin(), axis=0, stride=1)
            if atom.repeated
            else atom
            for atom in axis
        )

    def joined(self, known: Sequence[Axis], *, length: int, stranger: bool, at: int) -> Axis:
        """The axis where several tensors meet; ``stranger``: one not known has it as well."""
        if length == 1:
            return ()
        if not known:
            if not stranger:
                raise UnfollowedError
            return self.new(length, at)
        axis = known[0]
        for other in known[1:]:
            met = combine(axis, other)
            axis = self.opaque(length) if met is None else met
        return self.distinct(axis) if stranger else axis


def is_integer(value: object) -> bool:
    """Whether a value is an integer and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_integers(value: Any) -> tuple[int, ...]:
    """One integer or a sequence of them as a tuple; UnfollowedError for anything else."""
    values = value if isinstance(value, list | tuple) else (value,)
    if not all(is_integer(each) for each in values):
        raise UnfollowedError
    return tuple(int(each) for each in values)


def counted(axis: int, ndim: int) -> int:
    """An axis counted from the front."""
    if not -ndim <= axis < ndim:
        raise UnfollowedError
    return axis % ndim


def is_tensor(value: object) -> bool:
    """Whether an argument stands for a tensor."""
    return isinstance(value, Layout | Unknown)


def broadcast(
    op: Operation,
    operands: Sequence[Layout | Unknown],
    shape: Sequence[int],
    *,
    distinct: Sequence[int] = (),
) -> Layout:
    """The layout of tensors that meet position by position, their axes aligned at the end.

    ``distinct`` names axes along which copies don't stay copies. Raises UnfollowedError when
    nothing is known of any of them, or when they don't broadcast to ``shape``.
    """
    if not any(isinstance(operand, Layout) for operand in operands):
        raise UnfollowedError
    axes: list[Axis] = []
    shapes = [operand.shape for operand in operands]
    if any(len(own) > len(shape) for own in shapes):
        raise UnfollowedError
    for i, length in enumerate(shape):
        known: list[Axis] = []
        stranger = i in distinct
        for operand, own in zip(operands, shapes, strict=True):
            j = i - len(shape) + len(own)
            if j < 0 or own[j] == 1:
                continue
            if own[j] != length:
                raise UnfollowedError
            if isinstance(operand, Layout):
                known.append(operand.axes[j])
            else:
                stranger = True
        axes.append(op.joined(known, length=length, stranger=stranger, at=i))
    return Layout(tuple(axes))
