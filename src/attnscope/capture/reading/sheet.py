"""The shape sheet of a call: trails of q, k, v from their projections, then the operations."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from attnscope.calls.arrangement import Arrangement
from attnscope.calls.shapes import ShapeRow
from attnscope.capture.layout import Atom, Axis, Layout
from attnscope.capture.provenance import Node
from attnscope.capture.reading.trails import Trails
from attnscope.capture.trail import Trail

if TYPE_CHECKING:
    from attnscope.capture.recorded import RecordedEvidence

_SHOWN = 12
"""Most steps of a trail that are listed for one of q, k, v."""

QUERY_WORDS = ("batch", "heads", "queries", "head_dim")
KEY_WORDS = ("batch", "kv_heads", "keys", "head_dim")
VALUE_WORDS = ("batch", "kv_heads", "keys", "value_dim")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A range of one axis of an origin tensor, and what it became in q, k or v."""

    origin: int
    axis: int
    low: int
    high: int
    word: str


def shape_rows(evidence: RecordedEvidence) -> tuple[ShapeRow, ...]:
    """Return one row a step, from the projections to the context."""
    axes = evidence.axes
    value = evidence.products[0].value.trail
    rows = [
        *operand_rows("q", evidence.q_operand.trail, axes.q, QUERY_WORDS),
        *operand_rows("k", evidence.k_operand.trail, axes.k, KEY_WORDS),
        *operand_rows("v", value, axes.v, VALUE_WORDS),
    ]
    rows.extend(_node(evidence, node) for node in evidence.chain.nodes)
    return tuple(rows)


def operand_rows(
    name: str, trail: Trail | None, arrangement: Arrangement | None, words: tuple[str, ...]
) -> list[ShapeRow]:
    """Return the steps of one of q, k, v since its projection."""
    trails = Trails()
    steps = _steps(trail)
    layout = trails.layout(trail)
    pieces = _pieces(layout, arrangement, words) if layout and arrangement else []
    rows = [
        ShapeRow(
            step.name, "", step.shape, _words(trails.layout(step), pieces, step), step.parameters
        )
        for step in steps[-_SHOWN:]
    ]
    if arrangement is None:
        return rows
    shape = tuple(prod(axis) for axis in arrangement.splits)
    names = axis_names(arrangement, words)
    origins = _origins(layout, trails, steps, names)
    if rows and rows[-1].shape == shape:
        last = rows.pop()
        return [*rows, ShapeRow(last.step, name, shape, names, last.parameters, None, origins)]
    return [*rows, ShapeRow(name, name, shape, names, (), None, origins)]


def axis_names(arrangement: Arrangement, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return what each axis of the user's own layout is, joined names where it is several."""
    owners = _owners(arrangement, words)
    names, factor = [], 0
    for axis in arrangement.splits:
        parts = [owners.get(at, "copies") for at in range(factor, factor + len(axis))]
        factor += len(axis)
        names.append("·".join(dict.fromkeys(parts)) or "1")
    return tuple(names)


def _owners(arrangement: Arrangement, words: tuple[str, ...]) -> dict[int, str]:
    return {
        factor: word
        for group, word in zip(arrangement.groups, words, strict=True)
        for factor in group
    }


def _steps(trail: Trail | None) -> list[Trail]:
    steps: list[Trail] = []
    while trail is not None:
        steps.append(trail)
        trail = next((leaf for leaf in trail.args if isinstance(leaf, Trail)), None)
    return steps[::-1]


def _pieces(layout: Layout, arrangement: Arrangement, words: tuple[str, ...]) -> list[_Piece]:
    """Write down which range of which origin axis became which word."""
    owners = _owners(arrangement, words)
    pieces, factor = [], 0
    for axis, sizes in zip(layout.axes, arrangement.splits, strict=False):
        inner = prod(sizes)
        for at, size in enumerate(sizes):
            inner //= size
            word = owners.get(factor + at)
            found = _at(axis, inner)
            if word is not None and found is not None:
                atom, stride = found
                low = abs(atom.stride) * stride
                pieces.append(_Piece(atom.origin, atom.axis, low, low * size, word))
        factor += len(sizes)
    return pieces


def _at(axis: Axis, inner: int) -> tuple[Atom, int] | None:
    """Return the atom that holds the factor with this inner size, and its step along the atom."""
    below = 1
    for atom in reversed(axis):
        if below <= inner < below * atom.size and not atom.repeated:
            return atom, inner // below
        below *= atom.size
    return None


def _words(layout: Layout | None, pieces: list[_Piece], step: Trail) -> tuple[str, ...]:
    """Name the axes of an earlier step by what they became."""
    if layout is None:
        return ("?",) * len(step.shape)
    names = []
    for axis in layout.axes:
        found: list[str] = []
        for atom in axis:
            low, high = abs(atom.stride), abs(atom.stride) * atom.size
            mine = [
                piece
                for piece in pieces
                if (piece.origin, piece.axis) == (atom.origin, atom.axis)
                and piece.low < high
                and low < piece.high
            ]
            found.extend(piece.word for piece in sorted(mine, key=lambda piece: -piece.low))
        names.append("·".join(dict.fromkeys(found)) or ("1" if not axis else "?"))
    if names and names[-1] == "?" and all(name != "?" for name in names[:-1]):
        names[-1] = "width"
    return tuple(names)


def _origins(
    layout: Layout | None, trails: Trails, steps: list[Trail], names: tuple[str, ...]
) -> tuple[str, ...]:
    """Say for each axis of q, k or v which axis of the first known tensor it runs over."""
    first = steps[0] if steps else None
    if layout is None or first is None:
        return ("",) * len(names)
    whole = trails.layout(first)
    origins = []
    for axis in layout.axes if len(layout.axes) == len(names) else ():
        at = {
            index
            for atom in axis
            for index, own in enumerate(whole.axes if whole is not None else ())
            if any((o.origin, o.axis) == (atom.origin, atom.axis) for o in own)
        }
        origins.append(f"axis {at.pop()} of the {first.name}" if len(at) == 1 else "")
    return tuple(origins) or ("",) * len(names)


def _node(evidence: RecordedEvidence, node: Node) -> ShapeRow:
    name = _name(evidence, node)
    shape = node.shapes[0] if node.shapes else ()
    if name == "context":
        axes = evidence.context_axes()
    else:
        arrangement = evidence.axes.arrange(node)
        words = ("batch", "heads", "queries", "keys")
        axes = axis_names(arrangement, words) if arrangement is not None else ()
    if len(axes) != len(shape):
        axes = ("?",) * len(shape)
    return ShapeRow(node.name, name, shape, axes, (), node.source)


def _name(evidence: RecordedEvidence, node: Node) -> str:
    if any(node is product.node for product in evidence.products):
        return "context"
    known = {
        id(evidence.start): "q·k",
        id(evidence.reading.scores.node): "scores",
        id(evidence.reading.weights.node): "weights",
    }
    return known.get(id(node), "")
