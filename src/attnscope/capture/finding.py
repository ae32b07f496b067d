"""Finds q·k among the products behind some weights, or that there is no attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from torch import Tensor

from attnscope.calls.held import Held
from attnscope.calls.program import map_leaves
from attnscope.capture.found import Found
from attnscope.capture.provenance import (
    Node,
    Output,
    ancestors,
    bypasses,
    leads_to,
    nearest,
    unsummed_starts,
)
from attnscope.capture.reading.axes import (
    AxesReading,
    NotAttentionError,
    product_of,
    read_axes,
    read_some_axes,
)
from attnscope.capture.reading.stages import outermost_softmaxes
from attnscope.capture.reading.trails import Trails
from attnscope.capture.trail import Trail

_EXPONENTIALS = frozenset({"exp", "exp2", "exp_", "exp2_"})
_SHORT = 16


def behind(found: Found, *, chunked: bool) -> list[Node]:
    """Return what attention came from; chunked: of chunks of the keys, without earlier ones."""
    if chunked:
        return nearest(found.weights.node, found.node)
    return ancestors([found.weights.node, found.node])


class Finder:
    """Looks for q·k behind weights; a place that was seen before is not worked out again.

    Layers repeat, and decoding repeats steps. What was decided for operations on the same lines, of
    the same shapes, holds for the next; naming the axes then waits until somebody asks.
    """

    def __init__(self) -> None:
        """Start with no place known."""
        self._known: dict[object, int | None] = {}
        self._trails = Trails()

    def find(
        self, nodes: list[Node], found: Found
    ) -> tuple[Node, Callable[[], AxesReading]] | None:
        """Return the product that is q·k and how its axes are read; None: no attention."""
        key = _place(nodes, found)
        if key in self._known:
            at = self._known[key]
            if at is None:
                return None
            start = nodes[at]
            gone = found.output.new_empty(0).detach()  # the output itself would keep its graph
            light = replace(found, output=gone)
            return start, lambda: _axes_of(nodes, start, light, self._trails)
        best = best_start(nodes, found)
        self._known[key] = nodes.index(best[0]) if best is not None else None
        if best is None:
            return None
        axes = best[1]
        return best[0], lambda: axes


def _place(nodes: list[Node], found: Found) -> object:
    """Return what tells one place from others: lines, arguments, shapes, trails of operands."""
    steps = tuple(
        (n.name, n.source.file, n.source.line, n.shapes, _plain(n.args), _plain(n.kwargs))
        for n in nodes
    )
    sides = [s for n in nodes for s in (n.left, n.right) if s is not None]
    ways = tuple((side.weight, _way(side.trail)) for side in (*sides, found.value))
    return steps, ways, found.weights_left, found.value.held.shape


def _way(trail: Trail | None) -> object:
    return None if trail is None else (trail.name, trail.depth, trail.shape)


def _plain(arguments: object) -> str:
    """Return recorded arguments as text, tensors left out: an equation, a dimension, a slice."""
    return repr(map_leaves(arguments, lambda leaf: None if isinstance(leaf, _TENSORS) else leaf))


_TENSORS = (Tensor, Held, Output)


def _axes_of(nodes: list[Node], start: Node, found: Found, trails: Trails) -> AxesReading:
    axes = read_axes(
        nodes,
        start,
        found.weights,
        found.value,
        found.node,
        weights_left=found.weights_left,
        trails=trails,
    ) or read_some_axes(start, found.value)
    if axes is None:
        raise NotAttentionError
    return axes


def best_start(nodes: list[Node], found: Found) -> tuple[Node, AxesReading] | None:
    """Return the product that is q·k, with its axes; None where there is no attention."""
    best: tuple[tuple[bool, bool, int], Node, AxesReading] | None = None
    softmax = outermost_softmaxes(nodes)
    inside = {id(node) for node in ancestors(softmax[:1])} if softmax else None
    unnamed: list[Node] = []
    for node in _starts(nodes, found.weights.node):
        if inside and id(node) not in inside:
            continue
        try:
            axes = read_axes(
                nodes, node, found.weights, found.value, found.node, weights_left=found.weights_left
            )
        except NotAttentionError:
            continue
        if axes is None:
            unnamed.append(node)
            continue
        if not softmax and not _is_plausible(nodes, node, axes, found.weights.node):
            continue
        rank = _rank(node, axes)
        if rank is not None and (best is None or rank >= best[0]):
            best = (rank, node, axes)
    if best is not None:
        return best[1], best[2]
    exponential = any(node.name in _EXPONENTIALS for node in nodes)
    return _unnamed_start(unnamed, found) if softmax or exponential else None


def _starts(nodes: list[Node], weights: Node) -> list[Node]:
    """Return the products behind weights, without those of which only sums or maxima came in.

    Such are the products of earlier chunks, of which the later ones know a running maximum.
    """
    starts = [node for node in nodes if node.starts]
    near = {id(node) for node in unsummed_starts(weights)}
    return [node for node in starts if id(node) in near] or starts


def _is_plausible(nodes: list[Node], start: Node, axes: AxesReading, weights: Node) -> bool:
    """Return whether something other than a softmax may have made weights of this product.

    Activations (ReLU, SiLU, powers) stand in feed-forward layers, gates and norms as well, so what
    lies between has to be short, to have queries and keys throughout, and keys that are tokens.
    """
    if bypasses(start, weights):
        return False
    between = [node for node in nodes if node.sequence > start.sequence]
    if any(node.name in _EXPONENTIALS for node in between):
        return True
    if start.name == "sum" or axes.sizes.value_dim == 1:
        return False
    path = [node for node in between if node.normalised or start in node.parents]
    named = all(axes.arrange(node) is not None for node in path if node.shapes)
    return named and len(path) <= _SHORT and not axes.keys_are_features


def _rank(node: Node, axes: AxesReading) -> tuple[bool, bool, int] | None:
    """Return how well a product suits as q·k; None where its keys are mere parameters."""
    product = product_of(node)
    if product is None or node.left is None or node.right is None:
        return None
    free, key = (product.right, node.left) if axes.keys_left else (product.left, node.right)
    if key.weight:
        return None
    own = not (node.left.weight or node.right.weight)
    return bool(free) or axes.sizes.queries == 1, own, prod(key.held.shape)


def _unnamed_start(nodes: list[Node], found: Found) -> tuple[Node, AxesReading] | None:
    """Return the first product of two activations that a softmax led on to a product with v.

    What comes from sums over its rows alone is not its weights.
    """
    for node in nodes:
        if node.left is None or node.right is None or node.left.weight or node.right.weight:
            continue
        if not leads_to(node, found.weights.node):
            continue
        axes = read_some_axes(node, found.value)
        if axes is not None:
            return node, axes
    return None
