"""The shape sheet of a hand-written call: trails of q, k, v, then the recorded operations."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from attnscope.calls.arrangement import Arrangement
from attnscope.calls.shapes import ShapeRow
from attnscope.capture.provenance import Node
from attnscope.capture.trail import Trail

if TYPE_CHECKING:
    from attnscope.capture.recorded import RecordedEvidence

_SHOWN = 8
"""Most steps of a trail that are listed for one of q, k, v."""


def shape_rows(evidence: RecordedEvidence) -> tuple[ShapeRow, ...]:
    """Return one row a step, from the projections to the context."""
    axes = evidence.axes
    rows = [
        *operand_rows("q", evidence.q_operand.trail, axes.q, ("batch", "heads", "queries", "head_dim")),
        *operand_rows("k", evidence.k_operand.trail, axes.k, ("batch", "kv_heads", "keys", "head_dim")),
        *operand_rows(
            "v",
            evidence.products[0].value.trail,
            axes.v,
            ("batch", "kv_heads", "keys", "value_dim"),
        ),
    ]
    rows.extend(_node(evidence, node) for node in evidence.chain.nodes)
    return tuple(rows)


def operand_rows(
    name: str, trail: Trail | None, arrangement: Arrangement | None, words: tuple[str, ...]
) -> list[ShapeRow]:
    """Return the steps of one of q, k, v since its projection."""
    rows: list[ShapeRow] = []
    step = trail
    while step is not None and len(rows) < _SHOWN:
        parameters = step.parameters
        rows.append(ShapeRow(step.name, "", step.shape, ("?",) * len(step.shape), parameters))
        before = next((leaf for leaf in step.args if isinstance(leaf, Trail)), None)
        step = before
    rows.reverse()
    if arrangement is None:
        return rows
    shape = tuple(prod(axis) for axis in arrangement.splits)
    final = ShapeRow(name, name, shape, axis_names(arrangement, words))
    if rows and rows[-1].shape == shape:
        last = rows.pop()
        final = ShapeRow(last.step, name, shape, final.axes, last.parameters)
    return [*rows, final]


def axis_names(arrangement: Arrangement, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return what each axis of the user's own layout is, joined names where it is several."""
    owner = {
        factor: word for group, word in zip(arrangement.groups, words, strict=True) for factor in group
    }
    names = []
    factor = 0
    for axis in arrangement.splits:
        parts = [owner.get(at, "copies") for at in range(factor, factor + len(axis))]
        factor += len(axis)
        names.append("·".join(dict.fromkeys(parts)) or "1")
    return tuple(names)


def _node(evidence: RecordedEvidence, node: Node) -> ShapeRow:
    products = {id(product.node) for product in evidence.products}
    name = ""
    if node is evidence.start:
        name = "q·k"
    elif id(node) in products:
        name = "context"
    elif node is evidence.reading.weights.node:
        name = "weights"
    elif node is evidence.reading.scores.node:
        name = "scores"
    shape = node.shapes[0] if node.shapes else ()
    arrangement = evidence.axes.arrange(node) if name != "context" else evidence.axes.context
    last = "value_dim" if name == "context" else "keys"
    words = ("batch", "heads", "queries", last)
    unknown = ("?",) * len(shape)
    axes = axis_names(arrangement, words) if arrangement is not None else unknown
    return ShapeRow(node.name, name, shape, axes if len(axes) == len(shape) else unknown, (), node.source)

