"""Names the axes of a hand-written attention: which are batch, heads, queries, keys, features.

Works on sizes alone, so it is done while the model runs, and also decides whether what looked like
attention is one: the product with v has to sum over the axis that k brought into the scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from attnscope.calls.arrangement import Arrangement
from attnscope.calls.evidence import Sizes
from attnscope.calls.program import map_leaves
from attnscope.capture.layout import Atom, Axis, Contraction, Layout, Unknown, follow, fresh
from attnscope.capture.operands import pairing_of
from attnscope.capture.provenance import Chain, Node, Operand, Output
from attnscope.capture.reading.trails import Trails

Shape = tuple[int, ...]
SCORES = 0
"""Origin number of the product q·k, in layouts of what follows from it."""

ROLES = ("batch", "heads", "queries", "keys")


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of one axis of the product q·k.

    copied: k (or q) holds the same values at all its positions: expanded kv heads.
    """

    role: str
    axis: int
    stride: int
    size: int
    copied: bool = False
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AxesReading:
    """Arrangements of all tensors of a call; None where the axes of a tensor could not be named.

    expansion: how kv heads met the query heads; chain: layouts of the chain's outputs.
    names: axis names of the product q·k in the user's own layout, for the shape sheet.
    keys_are_features: the axis of the keys was cut off the features of a projection.
    """

    sizes: Sizes
    q: Arrangement
    k: Arrangement
    v: Arrangement | None
    raw: Arrangement
    context: Arrangement | None
    keys_left: bool
    expansion: str
    names: tuple[str, ...]
    chain: Mapping[tuple[int, int], Layout]
    factors: tuple[tuple[Factor, ...], ...]
    keys_are_features: bool = False

    def arrange(self, node: Node, index: int = 0) -> Arrangement | None:
        """Return the arrangement of any tensor between q·k and the weights."""
        layout = self.chain.get((id(node), index))
        return _by_factors(layout, self.factors) if layout is not None else None

    def roles(self, node: Node, index: int, axis: int) -> tuple[str, ...]:
        """Return what one axis of a tensor between q·k and the weights is."""
        layout = self.chain.get((id(node), index))
        if layout is None or not -len(layout.axes) <= axis < len(layout.axes):
            return ()
        pieces = _pieces_of(layout.axes[axis], self.factors) or []
        return tuple(dict.fromkeys(piece.role for piece in pieces))


class NotAttentionError(Exception):
    """The product with v does not sum over the axis that k brought in."""


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
        return _summed_product(node, shapes)
    return pairing_of(node.name, node.args, node.kwargs, (_Shaped(shapes[0]), _Shaped(shapes[1])))


def _summed_product(node: Node, shapes: tuple[Shape, Shape]) -> Contraction | None:
    rank = max(len(shape) for shape in shapes)
    dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", node.kwargs.get("axis"))
    if dims is None:
        return None
    gone = {axis % rank for axis in (dims if isinstance(dims, (tuple, list)) else (dims,))}
    keep = bool(node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False))  # noqa: PLR2004
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


def read_axes(  # noqa: PLR0913  the pieces of one attention
    chain: Chain,
    start: Node,
    weights: Output,
    value: Operand,
    final: Node,
    *,
    weights_left: bool,
) -> AxesReading | None:
    """Name the axes; None where that can't be told.

    Raises:
        NotAttentionError: what was followed shows that this is something else.
    """
    first = product_of(start)
    if first is None or start.left is None or start.right is None:
        return None
    layouts = chain_layouts(chain, start)
    weights_layout = layouts.get((id(weights.node), weights.index))
    if weights_layout is None:
        return None
    shapes = (weights_layout.shape, value.held.shape)
    second = pairing(final, shapes if weights_left else (shapes[1], shapes[0]))
    if second is None:
        return None
    if not weights_left:
        second = _flipped(second)
    trails = Trails()
    sides = _Sides(trails, start, value, first, second, weights_layout)
    keys_left = sides.keys_are_left()
    if keys_left is None:
        return None
    factors = sides.factors(keys_left=keys_left)
    return sides.reading(factors, layouts, keys_left=keys_left)


def read_some_axes(start: Node, value: Operand) -> AxesReading | None:
    """Name the axes of q, k and their product alone, where what follows could not be followed.

    The keys are taken to be the axis that the right operand alone brings in, as in `q @ k.mT`.
    """
    first = product_of(start)
    if first is None or not first.summed or not first.right:
        return None
    whole = fresh(start.shapes[0], SCORES)
    outs = [out for _, out in first.right]
    second = Contraction((), (), (), tuple((out, -1) for out in outs))
    sides = _Sides(Trails(), start, value, first, second, whole)
    factors = sides.factors(keys_left=False)
    return sides.partial(factors, keys_left=False)


def chain_layouts(chain: Chain, start: Node) -> dict[tuple[int, int], Layout]:
    """Follow the axes of the product q·k through the recorded operations."""
    numbers = itertools.count(SCORES + 1)
    layouts: dict[tuple[int, int], Layout] = {(id(start), 0): fresh(start.shapes[0], SCORES)}

    def leaf(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, Output):
            known = layouts.get((id(value.node), value.index))
            return known if known is not None else Unknown(value.node.shapes[value.index])
        shape = getattr(value, "shape", None)
        return Unknown(tuple(shape)) if shape is not None else value

    for node in chain.nodes:
        if node.sequence <= start.sequence:
            continue
        args, kwargs = map_leaves((node.args, node.kwargs), leaf)
        if not any(isinstance(item, Layout) for item in _flat((args, kwargs))):
            continue
        for index, shape in enumerate(node.shapes):
            layout = _follow(node, args, kwargs, shape, index, numbers)
            if layout is not None:
                layouts[(id(node), index)] = _completed(layout, layouts, node)
    return layouts


def _follow(  # noqa: PLR0913
    node: Node, args: Any, kwargs: Any, shape: Shape, index: int, numbers: Iterator[int]  # noqa: ANN401
) -> Layout | None:
    if node.name == "setitem":
        target = args[0]
        return target if isinstance(target, Layout) else None
    if node.name == "conv2d" and isinstance(args[0], Layout) and args[0].shape[2:] == shape[2:]:
        fresh_heads = fresh(shape, next(numbers)).axes[1]
        return args[0].replace(1, fresh_heads)
    return follow(
        node.name, args, kwargs, shape, new_origin=lambda: next(numbers), output_index=index
    )


def _completed(
    layout: Layout, layouts: Mapping[tuple[int, int], Layout], node: Node
) -> Layout:
    """Give a mixed axis (talking heads) the place of the only axis that it can stand for."""
    strange = [
        at
        for at, axis in enumerate(layout.axes)
        if any(atom.origin != SCORES and not atom.repeated for atom in axis)
    ]
    if len(strange) != 1:
        return layout
    at = strange[0]
    present = {(a.axis, a.stride) for axis in layout.axes for a in axis if a.origin == SCORES}
    for parent in node.parents:
        for index in range(len(parent.shapes)):
            before = layouts.get((id(parent), index))
            missing = [
                axis
                for axis in (before.axes if before is not None else ())
                if axis
                and all(a.origin == SCORES and (a.axis, a.stride) not in present for a in axis)
            ]
            if len(missing) == 1 and prod(a.size for a in missing[0]) == layout.shape[at]:
                return layout.replace(at, missing[0])
    return layout


def _flipped(pairs: Contraction) -> Contraction:
    return Contraction(
        tuple((right, left, out) for left, right, out in pairs.batch),
        pairs.right,
        pairs.left,
        tuple((right, left) for left, right in pairs.summed),
        pairs.right_alone,
        pairs.left_alone,
    )


class _Sides:
    """The two contractions of one attention with the layouts of q, k and v."""

    def __init__(  # noqa: PLR0913
        self,
        trails: Trails,
        start: Node,
        value: Operand,
        first: Contraction,
        second: Contraction,
        weights: Layout,
    ) -> None:
        self.trails, self.first, self.second, self.weights = trails, first, second, weights
        assert start.left is not None  # noqa: S101  a start has both sides
        assert start.right is not None  # noqa: S101
        self.left, self.right, self.value = start.left, start.right, value
        self.out_shape = start.shapes[0]
        self.layouts = [trails.layout(side.trail) for side in (self.left, self.right, value)]

    # which side is k

    def keys_are_left(self) -> bool | None:
        """Return whether k is the left operand; None where that can't be told."""
        if not self.first.summed:
            raise NotAttentionError
        atoms = [a for axis, _ in self.second.summed for a in self.weights.axes[axis]]
        if any(atom.origin != SCORES and not atom.repeated for atom in atoms):
            return None
        if not atoms:
            return self._single_key()
        summed = {atom.axis for atom in atoms if atom.origin == SCORES}
        right = summed & {out for _, out in self.first.right}
        left = summed & {out for _, out in self.first.left}
        if bool(right) == bool(left):
            raise NotAttentionError
        return bool(left)

    def _single_key(self) -> bool | None:
        """Return the side of k where there is one key alone, so that no axis shows it."""
        if any(self.out_shape[out] == 1 for _, out in self.first.right) or not self.first.right:
            return False
        if any(self.out_shape[out] == 1 for _, out in self.first.left) or not self.first.left:
            return True
        raise NotAttentionError

    # what each factor of q·k is

    def factors(self, *, keys_left: bool) -> tuple[tuple[Factor, ...], ...]:
        q_at, k_at = (1, 0) if keys_left else (0, 1)
        free = (self.first.left, self.first.right)
        summed = {a.axis for axis, _ in self.second.summed for a in self.weights.axes[axis]}
        pairs = self._pairs(q_at)
        projected = any(self._features(layout) for layout in self.layouts)
        result: dict[int, tuple[Factor, ...]] = {}
        for axis, out in free[k_at]:
            if out in summed:
                size = self.out_shape[out]
                result[out] = (Factor("keys", out, 1, size),) if size != 1 else ()
            else:
                result[out] = self._factored(out, -1, axis, q_at, "batch")
        for axis, out in free[q_at]:
            result[out] = self._factored(out, axis, -1, q_at, "queries")
        for q_axis, k_axis, out in pairs:
            result[out] = self._factored(out, q_axis, k_axis, q_at, "batch")
        alone = [out for q_axis, k_axis, out in pairs if q_axis >= 0 and self._broadcast(k_axis, k_at)]
        _name_queries(result, sorted(out for _, out in free[q_at]), sorted(alone))
        factors = [result.get(out, ()) for out in range(len(self.out_shape))]
        if not projected:
            factors = self._by_convention(factors, pairs, [out for _, out in free[q_at]])
        return tuple(factors)

    def _pairs(self, q_at: int) -> list[tuple[int, int, int]]:
        order = (0, 1) if q_at == 0 else (1, 0)
        return [(pair[order[0]], pair[order[1]], pair[2]) for pair in self.first.batch]

    def _features(self, layout: Layout | None) -> bool:
        return layout is not None and any(
            self.trails.is_feature(atom.origin, atom.axis) for atom in layout.atoms
        )

    def _factored(
        self, out: int, q_axis: int, k_axis: int, q_at: int, otherwise: str
    ) -> tuple[Factor, ...]:
        """Split one axis of q·k where q, k or v show that it is made of several."""
        size = self.out_shape[out]
        if size == 1:
            return ()
        axes = [
            self._axis(q_at, q_axis, size),
            self._axis(1 - q_at, k_axis, size),
            self._value_axis(out, size),
        ]
        known = [axis for axis in axes if axis is not None]
        strides = _common_strides([_strides(axis) for axis in known], size)
        factors = []
        for inner, outer in itertools.pairwise([*strides, size]):
            atoms = [_covering(axis, inner) for axis in known]
            heads = any(a is not None and self._is_head(a) for a in atoms)
            k_axis_atoms = axes[1]
            k_atom = _covering(k_axis_atoms, inner) if k_axis_atoms is not None else None
            copied = k_atom is not None and k_atom.repeated
            role = "heads" if heads or (copied and otherwise == "batch") else otherwise
            factors.append(Factor(role, out, inner, outer // inner, copied and role == "heads"))
        return tuple(reversed(factors))

    def _axis(self, side: int, axis: int, size: int) -> Axis | None:
        layout = self.layouts[side]
        if layout is None or axis < 0 or prod(a.size for a in layout.axes[axis]) != size:
            return None
        return layout.axes[axis]

    def _value_axis(self, out: int, size: int) -> Axis | None:
        """Return the axis of v that meets axis `out` of q·k, where it meets it whole."""
        layout = self.layouts[2]
        if layout is None:
            return None
        for weights_axis, value_axis, _ in self.second.batch:
            atoms = self.weights.axes[weights_axis] if weights_axis >= 0 else ()
            whole = len(atoms) == 1 and atoms[0].axis == out and atoms[0].origin == SCORES
            if whole and value_axis >= 0 and layout.shape[value_axis] == size:
                return layout.axes[value_axis]
        return None

    def _is_head(self, atom: Atom) -> bool:
        return self.trails.is_feature(atom.origin, atom.axis)

    def _by_convention(
        self,
        factors: list[tuple[Factor, ...]],
        pairs: list[tuple[int, int, int]],
        queries: list[int],
    ) -> list[tuple[Factor, ...]]:
        """Without projections to tell by: the last of several shared axes is the heads'."""
        if any(f.role == "heads" for group in factors for f in group):
            return factors
        shared = sorted(out for _, _, out in pairs)
        named = sorted(queries)[:-1]
        if len(shared) > 1:
            named.append(shared[-1])
        for out in named:
            factors[out] = tuple(
                Factor("heads", f.axis, f.stride, f.size, f.copied) for f in factors[out]
            )
        return factors

    def _broadcast(self, axis: int, side: int) -> bool:
        """Return whether an operand lacks an axis of the product, or has it with size 1."""
        operand = self.left if side == 0 else self.right
        return axis < 0 or operand.held.shape[axis] == 1

    # arrangements

    def reading(
        self,
        factors: tuple[tuple[Factor, ...], ...],
        layouts: Mapping[tuple[int, int], Layout],
        *,
        keys_left: bool,
    ) -> AxesReading | None:
        q_at, k_at = (1, 0) if keys_left else (0, 1)
        raw = _by_factors(fresh(self.out_shape, SCORES), factors)
        weights = _by_factors(self.weights, factors)
        q = self._operand(q_at, factors, "queries")
        k = self._operand(k_at, factors, "keys")
        v = self._value(factors)
        context = self._context(factors)
        if None in (raw, weights, q, k, v, context):
            return None
        assert raw and weights and q and k and v and context  # noqa: S101, PT018  for the type checker
        batch, heads, queries, keys = raw.shape
        kv_heads = max(k.shape[1], v.shape[1])
        sizes = Sizes(batch, heads, kv_heads, queries, keys, q.shape[3], v.shape[3])
        return AxesReading(
            sizes=sizes,
            q=q,
            k=k,
            v=v,
            raw=raw,
            context=context,
            keys_left=keys_left,
            expansion=self._expansion(k_at, sizes, k),
            names=tuple("·".join(f.role for f in group) or "1" for group in factors),
            chain=layouts,
            factors=factors,
            keys_are_features=self._keys_are_features(k_at),
        )

    def _keys_are_features(self, k_at: int) -> bool:
        layout = self.layouts[k_at]
        free = self.first.left if k_at == 0 else self.first.right
        return layout is not None and any(
            self._is_head(atom) for axis, _ in free for atom in layout.axes[axis]
        )

    def partial(
        self, factors: tuple[tuple[Factor, ...], ...], *, keys_left: bool
    ) -> AxesReading | None:
        """Return what can be said without following the product any further."""
        raw = _by_factors(fresh(self.out_shape, SCORES), factors)
        q = self._operand(int(keys_left), factors, "queries")
        k = self._operand(1 - int(keys_left), factors, "keys")
        if raw is None or q is None or k is None:
            return None
        batch, heads, queries, keys = raw.shape
        value_dim = self.value.held.shape[-1]
        sizes = Sizes(batch, heads, k.shape[1], queries, keys, q.shape[3], value_dim)
        return AxesReading(
            sizes=sizes,
            q=q,
            k=k,
            v=None,
            raw=raw,
            context=None,
            keys_left=keys_left,
            expansion=self._expansion(1 - int(keys_left), sizes, k),
            names=tuple("·".join(f.role for f in group) or "1" for group in factors),
            chain={},
            factors=factors,
        )

    def _operand(
        self, side: int, factors: tuple[tuple[Factor, ...], ...], tokens: str
    ) -> Arrangement | None:
        operand = self.left if side == 0 else self.right
        shape = operand.held.shape
        outs = {pair[side]: pair[2] for pair in self.first.batch if pair[side] >= 0}
        outs |= dict(self.first.left if side == 0 else self.first.right)
        pieces: list[list[tuple[str, tuple[int, int], int, bool]]] = []
        for axis, size in enumerate(shape):
            if size == 1:
                pieces.append([])
            elif axis in outs:
                own = self._axis(side, axis, size)
                pieces.append(
                    [
                        (f.role, (f.axis, -f.stride), f.size, _is_copy(own, f))
                        for f in factors[outs[axis]]
                    ]
                )
            else:
                pieces.append([("dim", (axis, 0), size, False)])
        return _arranged(pieces, ("batch", "heads", tokens, "dim"))

    def _value(self, factors: tuple[tuple[Factor, ...], ...]) -> Arrangement | None:
        shape = self.value.held.shape
        met = {value: mine for mine, value, _ in self.second.batch if mine >= 0}
        met |= {value: mine for mine, value in self.second.summed}
        pieces: list[list[tuple[str, tuple[int, int], int, bool]]] = []
        for axis, size in enumerate(shape):
            if size == 1:
                pieces.append([])
                continue
            if axis not in met:
                alone = any(value == axis for _, value, _ in self.second.batch)
                pieces.append([("batch" if alone else "dim", (axis, 0), size, False)])
                continue
            own = self._axis(2, axis, size)
            found = _pieces_of(self.weights.axes[met[axis]], factors)
            if found is None or prod(f.size for f in found) != size:
                return None
            inner = size
            group = []
            for factor in found:
                inner //= factor.size
                atom = _covering(own, inner) if own is not None else None
                copy = atom is not None and atom.repeated and factor.role == "heads"
                group.append((factor.role, (factor.axis, -factor.stride), factor.size, copy))
            pieces.append(group)
        return _arranged(pieces, ("batch", "heads", "keys", "dim"))

    def _context(self, factors: tuple[tuple[Factor, ...], ...]) -> Arrangement | None:
        pieces: dict[int, list[tuple[str, tuple[int, int], int, bool]]] = {}
        for mine, value, out in self.second.batch:
            if mine >= 0 and self.weights.axes[mine]:
                found = _pieces_of(self.weights.axes[mine], factors)
                if found is None:
                    return None
                pieces[out] = [(f.role, (f.axis, -f.stride), f.size, False) for f in found]
            else:
                size = self.value.held.shape[value] if value >= 0 else 1
                pieces[out] = [("batch", (value, 0), size, False)] if size != 1 else []
        for mine, out in self.second.left:
            found = _pieces_of(self.weights.axes[mine], factors)
            if found is None:
                return None
            pieces[out] = [(f.role, (f.axis, -f.stride), f.size, False) for f in found]
        for value, out in self.second.right:
            size = self.value.held.shape[value]
            pieces[out] = [("dim", (value, 0), size, False)] if size != 1 else []
        ordered = [pieces[out] for out in sorted(pieces)]
        return _arranged(ordered, ("batch", "heads", "queries", "dim"))

    def _expansion(self, k_at: int, sizes: Sizes, k: Arrangement) -> str:
        if sizes.kv_heads == sizes.heads:
            return "none"
        operand = self.left if k_at == 0 else self.right
        trail = operand.trail
        while trail is not None and trail.args:
            name = trail.name
            if name in {"repeat_interleave", "expand", "repeat", "expand_as", "tile"}:
                return {"expand_as": "expand", "tile": "repeat"}.get(name, name)
            if name in {"index_select", "gather"}:
                return "index"
            before = trail.args[0]
            trail = before if hasattr(before, "args") else None
        return "expand" if k.copies else "broadcast"


def _name_queries(
    factors: dict[int, tuple[Factor, ...]], free: list[int], alone: list[int]
) -> None:
    """Make the last axis that only q has the queries, where none was found to be."""
    if any(factor.role == "queries" for group in factors.values() for factor in group):
        return
    choice = [out for out in free if factors[out]] or [
        out for out in alone if any(factor.role == "batch" for factor in factors[out])
    ]
    if choice:
        out = choice[-1]
        factors[out] = tuple(
            Factor("queries", f.axis, f.stride, f.size)
            if out in free or f.role == "batch"
            else f
            for f in factors[out]
        )


def _is_copy(axis: Axis | None, factor: Factor) -> bool:
    atom = _covering(axis, factor.stride) if axis is not None else None
    return atom is not None and atom.repeated and factor.role == "heads"


def _strides(axis: Axis) -> list[int]:
    strides, inner = [], 1
    for atom in reversed(axis):
        strides.append(inner)
        inner *= atom.size
    return strides


def _common_strides(several: list[list[int]], size: int) -> list[int]:
    """Return inner sizes at which an axis splits: all that are known, where they fit together."""
    merged = sorted({1, *(stride for strides in several for stride in strides)})
    fits = all(b % a == 0 for a, b in itertools.pairwise([*merged, size]))
    if fits:
        return merged
    return several[0] if several else [1]


def _covering(axis: Axis | None, stride: int) -> Atom | None:
    """Return the atom of `axis` that holds the factor with this inner size."""
    inner = 1
    for atom in reversed(axis or ()):
        if inner <= stride < inner * atom.size:
            return atom
        inner *= atom.size
    return None


def _pieces_of(
    axis: Axis, factors: tuple[tuple[Factor, ...], ...]
) -> list[Factor] | None:
    """Write an axis of a later tensor in the factors of q·k; None where it is not made of them."""
    pieces: list[Factor] = []
    for atom in axis:
        if atom.origin != SCORES:
            return None
        found = _atom_pieces(atom, factors[atom.axis])
        if found is None:
            return None
        pieces.extend(found)
    return pieces


def _atom_pieces(atom: Atom, factors: tuple[Factor, ...]) -> list[Factor] | None:
    pieces = []
    low, high = abs(atom.stride), abs(atom.stride) * atom.size
    if len(factors) == 1:
        only = factors[0]
        return [Factor(only.role, only.axis, low, atom.size, only.copied)]
    for factor in factors:
        bottom, top = max(low, factor.stride), min(high, factor.stride * factor.size)
        if top <= bottom:
            continue
        if top % bottom or bottom % factor.stride:
            return None
        pieces.append(Factor(factor.role, factor.axis, bottom, top // bottom, factor.copied))
    return pieces if prod(p.size for p in pieces) == atom.size else None


def _by_factors(
    layout: Layout, factors: tuple[tuple[Factor, ...], ...]
) -> Arrangement | None:
    pieces = []
    for axis in layout.axes:
        found = _pieces_of(axis, factors)
        if found is None:
            return None
        pieces.append([(f.role, (f.axis, -f.stride), f.size, False) for f in found])
    return _arranged(pieces, ROLES)


def _arranged(
    pieces: list[list[tuple[str, tuple[int, int], int, bool]]], roles: tuple[str, ...]
) -> Arrangement | None:
    """Order the factors of a tensor by role, and within a role as they stand in q·k."""
    flat = [piece for axis in pieces for piece in axis]
    if any(role not in roles for role, *_ in flat):
        return None
    groups = []
    for role in roles:
        mine = [
            (order, at)
            for at, (own, order, _, copy) in enumerate(flat)
            if own == role and not copy
        ]
        groups.append(tuple(at for _, at in sorted(mine)))
    copies = tuple(at for at, piece in enumerate(flat) if piece[3])
    return Arrangement(
        tuple(tuple(size for _, _, size, _ in axis) for axis in pieces), tuple(groups), copies
    )


def _flat(tree: Any) -> Iterator[Any]:  # noqa: ANN401
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _flat(item)
    elif isinstance(tree, dict):
        yield from _flat(tuple(tree.values()))
    else:
        yield tree
