"""The two contractions of one attention with the layouts of q, k and v: what each axis is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from math import prod

from attnscope.calls.arrangement import Arrangement
from attnscope.calls.evidence import Sizes
from attnscope.capture.layout import Atom, Axis, Contraction, Layout, fresh
from attnscope.capture.provenance import Node, Operand
from attnscope.capture.reading.axesreading import AxesReading, NotAttentionError
from attnscope.capture.reading.expansion import expansion_of, meet_otherwise
from attnscope.capture.reading.factors import (
    SCORES,
    Factor,
    arranged,
    by_factors,
    common_strides,
    covering,
    is_copy,
    name_queries,
    pieces_of,
    strides_of,
    with_kv_heads,
)
from attnscope.capture.reading.trails import Trails
from attnscope.capture.trail import Trail


class Sides:
    """The two contractions of one attention with the layouts of q, k and v."""

    def __init__(
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
        """Return the factors of each axis of q·k, outermost first."""
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
        alone = [
            out for q_axis, k_axis, out in pairs if q_axis >= 0 and self._broadcast(k_axis, k_at)
        ]
        name_queries(result, sorted(out for _, out in free[q_at]), sorted(alone))
        factors = [result.get(out, ()) for out in range(len(self.out_shape))]
        if not projected or self._lost_heads(factors, pairs, q_at):
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
        strides = common_strides([strides_of(axis) for axis in known], size)
        factors = []
        for inner, outer in itertools.pairwise([*strides, size]):
            atoms = [covering(axis, inner) for axis in known]
            heads = any(a is not None and self._is_head(a) for a in atoms)
            k_axis_atoms = axes[1]
            k_atom = covering(k_axis_atoms, inner) if k_axis_atoms is not None else None
            copied = k_atom is not None and k_atom.repeated
            if copied and not heads and self._copies_samples(k_axis_atoms or (), out):
                copied = False
            role = "heads" if heads or (copied and otherwise == "batch") else otherwise
            factors.append(Factor(role, out, inner, outer // inner, copied and role == "heads"))
        return tuple(reversed(factors))

    def _copies_samples(self, axis: Axis, out: int) -> bool:
        """Return whether an axis of k repeats whole samples, as for beams; heads lie elsewhere."""
        own = [atom for atom in axis if not atom.repeated]
        if not own or any(self._is_head(atom) for atom in own):
            return False
        beside = [pair for pair in self.first.batch if pair[2] != out]
        return any(
            self._is_head(atom)
            for pair in beside
            for layout, at in zip(self.layouts[:2], pair[:2], strict=True)
            if layout is not None and at >= 0
            for atom in layout.axes[at]
        )

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
        factors = [with_kv_heads(group) for group in factors]
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

    def _lost_heads(
        self,
        factors: list[tuple[Factor, ...]],
        pairs: list[tuple[int, int, int]],
        q_at: int,
    ) -> bool:
        """Return whether the heads were put in an order that projections can't be seen through."""
        if len(pairs) < 2 or any(f.role == "heads" for group in factors for f in group):
            return False
        out = max(pairs, key=lambda pair: pair[2])
        axes = [
            self._axis(at, axis, self.out_shape[out[2]])
            for at, axis in ((q_at, out[0]), (1 - q_at, out[1]))
        ]
        return any(axis is not None and any(atom.opaque for atom in axis) for axis in axes)

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
        """Return the names of all axes; None where a tensor does not consist of `factors`."""
        q_at, k_at = (1, 0) if keys_left else (0, 1)
        raw = by_factors(fresh(self.out_shape, SCORES), factors)
        weights = by_factors(self.weights, factors)
        q = self._operand(q_at, factors, "queries")
        k, v = self._operand(k_at, factors, "keys"), self._value(factors)
        if k is not None and v is not None and meet_otherwise(k, v):
            k = self._operand(k_at, factors, "keys", each=True)
            v = self._value(factors, each=True)
        context = self._context(factors)
        if None in (raw, weights, q, k, v, context):
            return None
        assert raw and weights and q and k and v and context  # noqa: S101, PT018  for the type checker
        cuts = self._cut(factors, "queries"), self._cut(factors, "keys")
        if None in cuts:
            return None
        rows, columns = (cut or slice(None) for cut in cuts)
        batch, heads, queries, keys = raw.shape
        queries, keys = len(range(queries)[rows]), len(range(keys)[columns])
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
            expansion=expansion_of(self._trail(k_at), sizes, k),
            names=tuple("·".join(f.role for f in group) or "1" for group in factors),
            chain=layouts,
            factors=factors,
            keys_are_features=self._keys_are_features(k_at),
            cut=(rows, columns),
        )

    def _trail(self, side: int) -> Trail | None:
        return (self.left if side == 0 else self.right).trail

    def _cut(self, factors: tuple[tuple[Factor, ...], ...], role: str) -> slice | None:
        """Return the range of queries or keys that is left in the weights; None: it is none."""
        mine = [factor for group in factors for factor in group if factor.role == role]
        outs = {factor.axis for factor in mine}
        atoms = [
            atom
            for axis in self.weights.axes
            for atom in axis
            if atom.origin == SCORES and atom.axis in outs
        ]
        whole = prod(factor.size for factor in mine)
        left = prod(atom.size - atom.before - atom.after for atom in atoms)
        if left == whole:
            return slice(None)
        if len(mine) == len(atoms) == 1 and atoms[0].stride == 1:
            return slice(atoms[0].offset, atoms[0].offset + left)
        return slice(0, 1) if not atoms and left == 1 else None

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
        raw = by_factors(fresh(self.out_shape, SCORES), factors)
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
            expansion=expansion_of(self._trail(1 - int(keys_left)), sizes, k),
            names=tuple("·".join(f.role for f in group) or "1" for group in factors),
            chain={},
            factors=factors,
        )

    def _operand(
        self,
        side: int,
        factors: tuple[tuple[Factor, ...], ...],
        tokens: str,
        *,
        each: bool = False,
    ) -> Arrangement | None:
        """Return how an operand is arranged; each: copied heads are told apart."""
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
                        (f.role, (f.axis, -f.stride), f.size, not each and is_copy(own, f))
                        for f in factors[outs[axis]]
                    ]
                )
            else:
                pieces.append([("dim", (axis, 0), size, False)])
        return arranged(pieces, ("batch", "heads", tokens, "dim"))

    def _value(
        self, factors: tuple[tuple[Factor, ...], ...], *, each: bool = False
    ) -> Arrangement | None:
        """Return how v is arranged; each: copied heads are told apart."""
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
            found = pieces_of(self.weights.axes[met[axis]], factors)
            if found is None or prod(f.size for f in found) != size:
                return None
            inner = size
            group = []
            for factor in found:
                inner //= factor.size
                atom = covering(own, inner) if own is not None else None
                copied = atom is not None and atom.repeated and factor.role == "heads"
                copy = copied and not each
                group.append((factor.role, (factor.axis, -factor.stride), factor.size, copy))
            pieces.append(group)
        return arranged(pieces, ("batch", "heads", "keys", "dim"))

    def _context(self, factors: tuple[tuple[Factor, ...], ...]) -> Arrangement | None:
        pieces: dict[int, list[tuple[str, tuple[int, int], int, bool]]] = {}
        for mine, value, out in self.second.batch:
            if mine >= 0 and self.weights.axes[mine]:
                found = pieces_of(self.weights.axes[mine], factors)
                if found is None:
                    return None
                pieces[out] = [(f.role, (f.axis, -f.stride), f.size, False) for f in found]
            else:
                size = self.value.held.shape[value] if value >= 0 else 1
                pieces[out] = [("batch", (value, 0), size, False)] if size != 1 else []
        for mine, out in self.second.left:
            found = pieces_of(self.weights.axes[mine], factors)
            if found is None:
                return None
            pieces[out] = [(f.role, (f.axis, -f.stride), f.size, False) for f in found]
        for value, out in self.second.right:
            size = self.value.held.shape[value]
            pieces[out] = [("dim", (value, 0), size, False)] if size != 1 else []
        ordered = [pieces[out] for out in sorted(pieces)]
        return arranged(ordered, ("batch", "heads", "queries", "dim"))
