"""The operations of a call that hide keys before the softmax, read off the tape.

An operation hides by filling scores, by adding a bias that is zero where a key is visible, by
multiplying scores with zeros, or by handing a mask to a fused kernel. What it hides follows from
the tensor that joins the scores there, so it can be asked again with another tensor in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.calls.program import Operation, Value
from attnscope.checks.course import Course
from attnscope.checks.masking.biases import DEEP, HIGH, hides_where, is_soft_mask, is_zero_one
from attnscope.checks.operations import ADDS

__all__ = ["Hide", "Kind", "hides_of", "hides_where", "late_hides_of"]

Kind: TypeAlias = Literal["fill", "bias", "times", "keep", "triangle"]
"""A fill; an added bias; a product with 0 and 1; a kernel's mask of booleans; tril or triu."""


@dataclass(frozen=True, slots=True, eq=False)
class Hide:
    """One operation that hides keys.

    value: what joins the scores there, a value of the tape; None: nothing (tril). inverted: True in
    the mask (or the branch of `where`) means visible. fill: what hidden scores become, or get
    added; NaN where it is told by the values of a bias alone. factor: -1 where it is subtracted.
    """

    operation: Operation
    kind: Kind
    value: int | None
    fill: float
    inverted: bool = False
    factor: float = 1.0

    @property
    def raises(self) -> bool:
        """Whether hidden keys win instead of losing."""
        return self.fill >= HIGH

    def hidden(self, joined: Tensor | None) -> Tensor:
        """Return True where keys are hidden, in the shape of what joins (or of the scores)."""
        if self.kind == "triangle" or joined is None:
            made: Tensor = self.operation.function(
                torch.ones(self.operation.shapes[0]), *_rest(self)
            )
            return made == 0
        if self.kind in {"fill", "keep"}:
            marked = joined != 0
            return ~marked if self.inverted else marked
        if self.kind == "times":
            return joined == 0
        bias = joined * self.factor
        hidden = hides_where(bias)
        return hidden if bool(hidden.any()) or not is_soft_mask(bias) else bias < 0


def _rest(hide: Hide) -> tuple[Any, ...]:
    named = [v for v in hide.operation.kwargs.values() if isinstance(v, int)]
    return tuple(v for v in (*hide.operation.args[1:], *named) if isinstance(v, int))


def _contents(operation: Operation) -> list[int]:
    """Return the values of which an operation takes more than the shape or the type."""
    name, values = operation.name, list(operation.values())
    if name.endswith("_like") or name.startswith("new_"):
        return []
    return values[:1] if name.endswith("_as") else values


class _Path:
    """The values of a call that hold scores: what is made in their likeness alone doesn't."""

    def __init__(self, course: Course) -> None:
        spots = course.located.spots
        self.values = {value for name in ("q", "k") for value, _ in spots.get(name, [])}
        for operation in course.main:
            if not self.values.isdisjoint(_contents(operation)):
                self.values.update(operation.defines)

    def joined(self, operation: Operation) -> set[int]:
        return {value for value in operation.values() if value not in self.values}

    def passes(self, operation: Operation) -> bool:
        return not self.values.isdisjoint(operation.defines)


def hides_of(course: Course, masks: frozenset[int] = frozenset()) -> list[Hide]:
    """Return the operations of a call that hide keys, in order.

    masks: inputs that are masks. What is added and made of them alone is a mask however low it is.
    """
    found: list[Hide] = []
    path = _Path(course)
    if len(course.main) == 1:
        return [*_of_kernel(course, masks)]
    for operation in course.main:
        if operation is course.softmax:
            break
        if path.passes(operation):
            found += _of(course, operation, path.joined(operation), masks)
    return found


def late_hides_of(course: Course) -> list[Hide]:
    """Return the operations that zero weights after the softmax, in order."""
    path, main = _Path(course), list(course.main)
    if course.softmax not in main[:-1]:
        return []
    found: list[Hide] = []
    for operation in main[main.index(course.softmax) + 1 : -1]:
        if path.passes(operation):
            found += [
                hide
                for hide in _of(course, operation, path.joined(operation))
                if hide.kind == "times" or (hide.kind == "fill" and hide.fill == 0.0)
            ]
    return found


def _of_kernel(course: Course, masks: frozenset[int]) -> Iterator[Hide]:
    """Read the mask that `scaled_dot_product_attention` was given."""
    operation = course.main[0]
    if operation.name != "scaled_dot_product_attention":
        return
    named = operation.kwargs.get("attn_mask")
    mask = named if named is not None else (*operation.args, None, None, None, None)[3]
    if not isinstance(mask, Value):
        return
    tensor = course.tape.tensors[mask.index].detach()
    if tensor.dtype == torch.bool:
        yield Hide(operation, "keep", mask.index, float("-inf"), inverted=True)
    else:
        yield from _of_bias(course, operation, mask.index, 1.0, masks)


def _of(
    course: Course,
    operation: Operation,
    joined: set[int],
    masks: frozenset[int] = frozenset(),
) -> Iterator[Hide]:
    name = operation.name.removesuffix("_")
    if name in {"tril", "triu"}:
        yield Hide(operation, "triangle", None, 0.0)
    elif name == "masked_fill":
        yield from _of_fill(course, operation, joined)
    elif name == "where":
        yield from _of_where(course, operation, joined)
    elif name == "setitem":
        yield from _of_setitem(course, operation, joined)
    elif name in {"add", "sub", "rsub", "baddbmm"}:
        yield from _of_sum(course, operation, joined, masks)
    elif name == "mul":
        for value in sorted(joined):
            tensor = course.tape.tensors[value].detach()
            if value not in course.located.weights and tensor.dim() > 1 and is_zero_one(tensor):
                yield Hide(operation, "times", value, 0.0)


def _of_sum(
    course: Course, operation: Operation, joined: set[int], masks: frozenset[int]
) -> Iterator[Hide]:
    name = operation.name.removesuffix("_")
    first = operation.args[0] if operation.args else None
    if operation.kwargs.get("beta") == 0:
        return  # baddbmm then takes nothing but the shape
    biases = [first.index] if name == "baddbmm" and isinstance(first, Value) else sorted(joined)
    for value in biases:
        minus = name == "sub" and not (isinstance(first, Value) and first.index == value)
        if value in joined:
            yield from _of_bias(course, operation, value, -1.0 if minus else 1.0, masks)


def _of_fill(course: Course, operation: Operation, joined: set[int]) -> Iterator[Hide]:
    given = dict(zip(("self", "mask", "value"), operation.args, strict=False))
    given |= dict(operation.kwargs)
    mask, fill = given.get("mask"), _number(course, given.get("value"))
    if isinstance(mask, Value) and mask.index in joined and fill is not None:
        yield Hide(operation, "fill", mask.index, fill)


def _of_where(course: Course, operation: Operation, joined: set[int]) -> Iterator[Hide]:
    args = (*operation.args, *operation.kwargs.values())
    if len(args) != 3:
        return
    at = next((n for n, a in enumerate(args[:2]) if _is_boolean(course, a)), None)
    if at is None:
        return
    condition, *branches = args[at], *(a for n, a in enumerate(args) if n != at)
    if condition.index not in joined:
        return
    on_path = [isinstance(b, Value) and b.index not in joined for b in branches]
    if on_path.count(True) != 1:
        return
    kept = on_path.index(True)
    fill = _number(course, branches[1 - kept])
    if fill is not None:
        yield Hide(operation, "fill", condition.index, fill, inverted=kept == 0)


def _of_setitem(course: Course, operation: Operation, joined: set[int]) -> Iterator[Hide]:
    if len(operation.args) != 3:
        return
    _, index, value = operation.args
    fill = _number(course, value)
    if isinstance(index, Value) and index.index in joined and fill is not None:
        mask = course.tape.tensors[index.index]
        if mask.dtype == torch.bool and mask.dim() == len(operation.shapes[0]):
            yield Hide(operation, "fill", index.index, fill)


def _of_bias(
    course: Course, operation: Operation, value: int, factor: float, masks: frozenset[int]
) -> Iterator[Hide]:
    if value in course.located.weights:
        return
    bias = course.tape.tensors[value].detach().double() * factor
    if bias.dim() < 2:
        return
    hidden = hides_where(bias)
    given = bias[hidden]
    highest = float(given.max()) if given.numel() else 0.0
    learned = highest > DEEP and _is_learned(course, value)
    if given.numel() and not learned:
        yield Hide(operation, "bias", value, highest, factor=factor)
        return
    for addend in _addends(course, value):
        part = course.tape.tensors[addend].detach().double() * factor
        extreme = bool(((part >= HIGH) | (part <= DEEP)).any()) and not _is_learned(course, addend)
        if extreme or (is_soft_mask(part) and _is_made_of(course, addend, masks)):
            hidden = hides_where(part)
            fill = float(part[hidden].max()) if extreme else float(part.min())
            yield Hide(operation, "bias", addend, fill, factor=factor)


def _addends(course: Course, value: int) -> Iterator[int]:
    """Iterate over what a bias is the sum of, itself where it is none."""
    maker = course.tape.maker.get(value)
    if maker is None or maker.name not in ADDS:
        yield value
        return
    for operand in maker.values():
        if course.tape.tensors[operand].dim() > 1:
            yield from _addends(course, operand)


def _is_made_of(course: Course, value: int, masks: frozenset[int]) -> bool:
    """Return whether a value is made of masks, and of nothing that is learned."""
    behind = course.tape.program.needed((value,), {})
    used = {value, *(each for operation in behind for each in operation.values())}
    return not masks.isdisjoint(used) and used.isdisjoint(course.located.weights)


def _is_learned(course: Course, value: int) -> bool:
    """Return whether a bias is made of parameters: of a table of distances, say."""
    behind = course.tape.program.needed((value,), {})
    learned = frozenset(course.located.weights)
    return any(not learned.isdisjoint(operation.values()) for operation in behind)


def _is_boolean(course: Course, argument: Any) -> bool:
    return isinstance(argument, Value) and course.tape.tensors[argument.index].dtype == torch.bool


def _number(course: Course, argument: Any) -> float | None:
    """Return an argument that is one number, as it is or all over a tensor."""
    if isinstance(argument, (int, float)) and not isinstance(argument, bool):
        return float(argument)
    if not isinstance(argument, Value) or argument.index in course.located.weights:
        return None
    tensor = course.tape.tensors[argument.index].detach()
    if not tensor.numel() or tensor.is_complex():
        return None
    lowest, highest = float(tensor.min()), float(tensor.max())
    return lowest if lowest == highest else None
