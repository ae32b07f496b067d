"""Which axes of two tensors a product pairs, keeps and sums.

Every product is first written as labels, as in einsum: one label for each axis of both operands
and of the output. What a label means follows from where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_letters
from typing import TYPE_CHECKING, Any

from attnscope.capture.layout.algebra import Axis, Layout
from attnscope.capture.layout.operation import (
    UnfollowedError,
    broadcast,
    is_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from attnscope.capture.layout.operation import Operation

Shape = tuple[int, ...]

_OPERANDS: Mapping[str, tuple[tuple[int, str], tuple[int, str]]] = {
    "matmul": ((0, "input"), (1, "other")),
    "imatmul": ((0, "input"), (1, "other")),
    "rmatmul": ((1, "other"), (0, "input")),
    "mm": ((0, "input"), (1, "mat2")),
    "bmm": ((0, "input"), (1, "mat2")),
    "mv": ((0, "input"), (1, "vec")),
    "dot": ((0, "input"), (1, "tensor")),
    "vdot": ((0, "input"), (1, "other")),
    "inner": ((0, "input"), (1, "other")),
    "outer": ((0, "input"), (1, "vec2")),
    "linear": ((0, "input"), (1, "weight")),
    "tensordot": ((0, "a"), (1, "b")),
    "addmm": ((1, "mat1"), (2, "mat2")),
    "addmv": ((1, "mat"), (2, "vec")),
    "baddbmm": ((1, "batch1"), (2, "batch2")),
    "addbmm": ((1, "batch1"), (2, "batch2")),
}
_ADDED = frozenset({"addmm", "addmv", "baddbmm", "addbmm"})
CONTRACTIONS = frozenset({*_OPERANDS, "einsum"})
"""Names that ``contract`` understands."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """The axes of a product of two tensors.

    ``left`` and ``right`` are in the order of multiplication: ``a.__rmatmul__(b)`` is ``b @ a``.
    """

    batch: tuple[tuple[int, int, int], ...]
    """Paired and kept: (axis of left, axis of right, axis of output); -1 where an operand lacks
    the axis or has it with size 1 against more."""
    left: tuple[tuple[int, int], ...]
    """Free axes of the left operand: (its axis, axis of output)."""
    right: tuple[tuple[int, int], ...]
    """Free axes of the right operand: (its axis, axis of output)."""
    summed: tuple[tuple[int, int], ...]
    """Paired and summed: (axis of left, axis of right)."""
    left_alone: tuple[int, ...] = ()
    """Axes of the left operand that are summed before the product (einsum only)."""
    right_alone: tuple[int, ...] = ()
    """Axes of the right operand that are summed before the product (einsum only)."""


@dataclass(frozen=True, slots=True)
class _Labels:
    left: Sequence[str]
    right: Sequence[str]
    out: Sequence[str]
    shared: frozenset[str] = frozenset()
    """Labels that are batch axes even where one operand lacks them."""


def operands(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """The two tensors that are multiplied, in the order of multiplication; None: not two."""
    if name == "einsum":
        match args[1:]:
            case (left, right) | ([left, right],):
                return left, right
            case _:
                return None
    if name not in _OPERANDS:
        return None
    found = [
        args[position] if position < len(args) else kwargs.get(keyword)
        for position, keyword in _OPERANDS[name]
    ]
    return None if any(value is None for value in found) else (found[0], found[1])


def contract(
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    shapes: tuple[Shape, Shape],
) -> Contraction | None:
    """Which axes a product pairs, keeps and sums; None where that can't be said.

    ``shapes`` are those of ``operands(name, args, kwargs)``. Of ``args`` only an equation or the
    ``dims`` of tensordot are read, so tensors in it may be anything. ``linear`` contracts the last
    axes of input and weight; ``addmm`` and its kin multiply their second and third argument.
    """
    labels = _labels(name, args, kwargs, shapes)
    return None if labels is None else _by_labels(labels, shapes)


def _labels(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: tuple[Shape, Shape]
) -> _Labels | None:
    ranks = len(shapes[0]), len(shapes[1])
    if name == "einsum":
        equation = args[0] if args else kwargs.get("equation")
        return _einsum(equation, ranks) if isinstance(equation, str) else None
    if name == "tensordot":
        dims = next(iter(args[2:]), kwargs.get("dims", 2))
        return _tensordot(dims, ranks)
    if name in {"matmul", "rmatmul", "imatmul"}:
        return _matmul(ranks)
    fixed = {
        "mm": ((2, 2), "ms", "sn", "mn"),
        "addmm": ((2, 2), "ms", "sn", "mn"),
        "bmm": ((3, 3), "bms", "bsn", "bmn"),
        "baddbmm": ((3, 3), "bms", "bsn", "bmn"),
        "addbmm": ((3, 3), "bms", "bsn", "mn"),
        "mv": ((2, 1), "ms", "s", "m"),
        "addmv": ((2, 1), "ms", "s", "m"),
        "dot": ((1, 1), "s", "s", ""),
        "vdot": ((1, 1), "s", "s", ""),
        "outer": ((1, 1), "m", "n", "mn"),
    }
    if name in fixed:
        expected, left, right, out = fixed[name]
        return _Labels(left, right, out) if ranks == expected else None
    if name in {"linear", "inner"} and min(ranks) > 0:
        first = [f"m{i}" for i in range(ranks[0] - 1)]
        second = [f"n{i}" for i in range(ranks[1] - 1)]
        return _Labels([*first, "s"], [*second, "s"], [*first, *second])
    return None


def _matmul(ranks: tuple[int, int]) -> _Labels | None:
    if min(ranks) < 1:
        return None
    batches = [[f"b{i}" for i in reversed(range(max(0, rank - 2)))] for rank in ranks]
    batch = max(batches, key=len)
    row = ["m"] if ranks[0] > 1 else []
    column = ["n"] if ranks[1] > 1 else []
    left, right = [*batches[0], *row, "s"], [*batches[1], "s", *column]
    return _Labels(left, right, [*batch, *row, *column], frozenset(batch))


def _tensordot(dims: Any, ranks: tuple[int, int]) -> _Labels | None:
    left = [f"m{i}" for i in range(ranks[0])]
    right = [f"n{i}" for i in range(ranks[1])]
    if isinstance(dims, int):
        pairs = [(ranks[0] - dims + i, i) for i in range(dims)]
    else:
        match dims:
            case ([*_] as first, [*_] as second) if len(first) == len(second):
                pairs = list(zip(first, second, strict=True))
            case (int(first), int(second)):
                pairs = [(first, second)]
            case _:
                return None
    for i, (axis_left, axis_right) in enumerate(pairs):
        if not (-ranks[0] <= axis_left < ranks[0] and -ranks[1] <= axis_right < ranks[1]):
            return None
        left[axis_left] = right[axis_right] = f"s{i}"
    kept = [label for label in (*left, *right) if not label.startswith("s")]
    return _Labels(left, right, kept)


def _einsum(equation: str, ranks: tuple[int, int]) -> _Labels | None:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        return None
    left, right = (_term(term, rank) for term, rank in zip(terms, ranks, strict=True))
    if left is None or right is None:
        return None
    dots = [[label for label in labels if label.startswith(".")] for labels in (left, right)]
    widest = max(dots, key=len)
    if not arrow:
        letters = [label for label in (*left, *right) if not label.startswith(".")]
        output = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    elif widest and "..." not in output:
        return None
    out = _term(output, len(output.replace("...", "")) + len(widest))
    if out is None:
        return None
    batch = widest if all("..." in term for term in terms) else ()
    return _Labels(left, right, out, frozenset(batch))


def _term(term: str, rank: int) -> list[str] | None:
    """One label for each axis; those under an ellipsis are numbered from the right."""
    before, ellipsis, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    if any(letter not in ascii_letters for letter in before + after):
        return None
    if hidden < 0 or (hidden and not ellipsis):
        return None
    return [*before, *(f".{i}" for i in reversed(range(hidden))), *after]


def _by_labels(labels: _Labels, shapes: tuple[Shape, Shape]) -> Contraction | None:
    left, right, out = labels.left, labels.right, labels.out
    if any(len(set(term)) != len(term) for term in (left, right, out)):
        return None
    if (len(left), len(right)) != (len(shapes[0]), len(shapes[1])):
        return None
    if not set(out) <= {*left, *right}:
        return None
    batch: list[tuple[int, int, int]] = []
    free: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for place, label in enumerate(out):
        i = left.index(label) if label in left else -1
        j = right.index(label) if label in right else -1
        if label in labels.shared or (i >= 0 and j >= 0):
            pair = _met(i, j, shapes)
            if pair is None:
                return None
            batch.append((*pair, place))
        elif i >= 0:
            free[0].append((i, place))
        else:
            free[1].append((j, place))
    inside = [label for label in left if label not in out and label in right]
    summed = tuple((left.index(label), right.index(label)) for label in inside)
    if any(shapes[0][i] != shapes[1][j] for i, j in summed):
        return None
    alone = [
        tuple(i for i, label in enumerate(own) if label not in out and label not in other)
        for own, other in ((left, right), (right, left))
    ]
    return Contraction(tuple(batch), tuple(free[0]), tuple(free[1]), summed, *alone)


def _met(i: int, j: int, shapes: tuple[Shape, Shape]) -> tuple[int, int] | None:
    """Two axes that meet in a batch axis, -1 for one that is broadcast; None if they can't."""
    if i < 0 or j < 0 or shapes[0][i] == shapes[1][j]:
        return i, j
    if shapes[0][i] == 1:
        return -1, j
    return (i, -1) if shapes[1][j] == 1 else None


def contracted(op: Operation) -> Layout:
    """The layout of a product: batch axes where both meet, free axes from their operand.

    The free axes of an operand that isn't known begin with the output.
    """
    pair = operands(op.name, op.args, op.kwargs)
    if pair is None or not all(is_tensor(operand) for operand in pair):
        raise UnfollowedError
    if not any(isinstance(operand, Layout) for operand in pair):
        raise UnfollowedError
    found = contract(op.name, op.args, op.kwargs, (pair[0].shape, pair[1].shape))
    if found is None:
        raise UnfollowedError
    axes: dict[int, Axis] = {}
    for i, j, place in found.batch:
        met = [(operand, at) for operand, at in zip(pair, (i, j), strict=True) if at >= 0]
        known = [operand.axes[at] for operand, at in met if isinstance(operand, Layout)]
        stranger = len(known) < len(met)
        axes[place] = op.joined(known, length=op.out_shape[place], stranger=stranger, at=place)
    for operand, free in zip(pair, (found.left, found.right), strict=True):
        for at, place in free:
            known = [operand.axes[at]] if isinstance(operand, Layout) else []
            axes[place] = known[0] if known else op.new(op.out_shape[place], place)
    product = Layout(tuple(axes[place] for place in range(len(axes))))
    if op.name not in _ADDED:
        return product
    added = op.argument(0, "input", "self")
    return broadcast(op, [product, added], op.out_shape) if is_tensor(added) else product
