"""Which axes a contraction pairs, keeps and sums, also one written as a product and a sum."""

from __future__ import annotations

from dataclasses import dataclass

from attnscope.capture.layout import Contraction
from attnscope.capture.operands import pairing_of
from attnscope.capture.provenance import Node

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Shaped:
    shape: Shape


def product_of(node: Node) -> Contraction | None:
    """Return which axes the contraction `node` pairs, keeps and sums."""
    left, right = node.left, node.right
    if left is None or right is None:
        return None
    return pairing(node, (left.held.shape, right.held.shape))


def pairing(node: Node, shapes: tuple[Shape, Shape]) -> Contraction | None:
    """Return the axes of a contraction, also of one written as a product and a sum."""
    if node.name == "sum":
        product = node.parents[0]
        if product.name == "einsum":
            return _summed_einsum(node, pairing(product, shapes))
        return _summed_product(node, shapes)
    return pairing_of(node.name, node.args, node.kwargs, (_Shaped(shapes[0]), _Shaped(shapes[1])))


def _summed_einsum(node: Node, product: Contraction | None) -> Contraction | None:
    """Return the axes of an einsum that sums nothing, followed by a sum."""
    gone = _summed_axes(node, len(node.parents[0].shapes[0]))
    if product is None or gone is None:
        return None
    both = {out: (left, right) for left, right, out in product.batch}
    if not all(out in both and -1 not in both[out] for out in gone):
        return None
    keep = _keeps(node)

    def moved(out: int) -> int:
        return out if keep else out - sum(axis < out for axis in gone)

    return Contraction(
        tuple((left, right, moved(out)) for left, right, out in product.batch if out not in gone),
        tuple((axis, moved(out)) for axis, out in product.left),
        tuple((axis, moved(out)) for axis, out in product.right),
        tuple(both[out] for out in sorted(gone)),
    )


def _summed_axes(node: Node, rank: int) -> set[int] | None:
    dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", node.kwargs.get("axis"))
    if dims is None:
        return None
    return {axis % rank for axis in (dims if isinstance(dims, (tuple, list)) else (dims,))}


def _keeps(node: Node) -> bool:
    return bool(node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False))


def _summed_product(node: Node, shapes: tuple[Shape, Shape]) -> Contraction | None:
    rank = max(len(shape) for shape in shapes)
    gone = _summed_axes(node, rank)
    if gone is None:
        return None
    keep = _keeps(node)
    batch, left, right, summed = [], [], [], []
    out = 0
    for axis in range(rank):
        sides = [axis - rank + len(shape) for shape in shapes]
        has = [at >= 0 and shape[at] != 1 for at, shape in zip(sides, shapes, strict=True)]
        if axis in gone:
            if all(has):
                summed.append((sides[0], sides[1]))
            elif any(has):
                return None
            out += keep
            continue
        if all(has) or not any(has):
            batch.append((max(sides[0], -1), max(sides[1], -1), out))
        elif has[0]:
            left.append((sides[0], out))
        else:
            right.append((sides[1], out))
        out += 1
    return Contraction(tuple(batch), tuple(left), tuple(right), tuple(summed))


def flipped(pairs: Contraction) -> Contraction:
    """Return the axes of the same contraction with its sides exchanged."""
    return Contraction(
        tuple((right, left, out) for left, right, out in pairs.batch),
        pairs.right,
        pairs.left,
        tuple((right, left) for left, right in pairs.summed),
        pairs.right_alone,
        pairs.left_alone,
    )
