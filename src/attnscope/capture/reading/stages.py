"""Where among recorded operations scores enter the normaliser and weights leave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnscope.calls.held import Held
from attnscope.capture.functions import SOFTMAXES
from attnscope.capture.provenance import Node, Output, ancestors, path
from attnscope.capture.reading.axesreading import AxesReading


@dataclass(frozen=True, slots=True)
class Stages:
    """What of the chain is scores (enters the normaliser) and weights (leaves it), by structure.

    named: the normaliser, where one function does it; axis: its dimension there.
    before: extra columns in front of the keys. others: further values that may be the scores,
    where the normaliser is written by hand.
    """

    scores: Output
    weights: Output
    named: str | None
    axis: int | None
    before: int
    others: tuple[Output, ...] = ()


def find_stages(start: Node, weights: Output, axes: AxesReading) -> Stages:
    """Find scores and weights among the operations between q·k and v."""
    way = path(start, weights.node)
    softmax = outermost_softmaxes(way)
    if softmax:
        node = softmax[0]
        scores, leaves = input_of(node), Output(node, 0)
        if node.name == "log_softmax":
            after = (Output(n, 0) for n in way if n.name == "exp" and node in n.parents)
            leaves = next(after, leaves)
        named = _NAMES.get(node.name, node.name)
        before = columns_before(axes, scores)
        return Stages(scores, leaves, named, dimension_of(node), before)
    nodes = [n for n in way if n.normaliser]
    nodes = [n for n in nodes if n.name.removesuffix("_") not in _INNER] or nodes or way[-1:]
    inputs = [output for n in nodes[:_TRIED] for output in _shifted(input_of(n), way)]
    first = inputs[0]
    others = {(id(output.node), output.index): output for output in inputs[1:]}
    before = columns_before(axes, first)
    return Stages(first, weights, None, None, before, tuple(others.values()))


_NAMES = {"log_softmax": "softmax", "softmax_": "softmax"}

_INNER = frozenset({"tanh", "clamp", "abs", "sqrt", "square", "pow"})
"""What scores may go through without becoming weights."""

_TRIED = 6
"""Normalisers whose inputs are tried as scores."""


def outermost_softmaxes(nodes: list[Node]) -> list[Node]:
    """Return the softmaxes that no later softmax comes from."""
    softmax = [node for node in nodes if node.name.removesuffix("_") in SOFTMAXES]
    inner = {id(before) for node in softmax for before in ancestors(node.parents)}
    return [node for node in softmax if id(node) not in inner]


def input_of(node: Node) -> Output:
    """Return the first value of a chain that `node` takes."""
    for leaf in (*node.args, *node.kwargs.values()):
        if isinstance(leaf, Output):
            return leaf
    return Output(node.parents[0], 0)


def _shifted(output: Output, way: list[Node]) -> list[Output]:
    """Return `output`, after the scores behind `scores - scores.max()` where it is such."""
    node = output.node
    if node.name.removesuffix("_") in {"sub", "add"} and node in way and len(node.args) > 1:
        first, second = node.args[0], node.args[1]
        shape = node.shapes[0]
        by_row = isinstance(second, Held) and second.shape[-1:] == (1,) and shape[-1:] != (1,)
        if isinstance(first, Output) and (isinstance(second, Output) or by_row):
            return [first, output]
    return [output]


def dimension_of(node: Node) -> int | None:
    """Return the axis that an operation such as a softmax or a sum runs over; None: not one."""
    axis: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    return axis if isinstance(axis, int) else None


def columns_before(axes: AxesReading, output: Output) -> int:
    """Return how many columns of `output` stand in front of the keys."""
    layout = axes.chain.get((id(output.node), output.index))
    if layout is None:
        return 0
    return max((atom.before for axis in layout.axes for atom in axis), default=0)
