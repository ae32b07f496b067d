"""Follows the axes of the product q·k through the operations recorded after it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from attnscope.calls.program import map_leaves
from attnscope.capture.layout import Layout, Unknown, follow, fresh
from attnscope.capture.provenance import Node, Output
from attnscope.capture.reading.factors import SCORES
from attnscope.capture.reading.pairing import Shape


def chain_layouts(nodes: list[Node], start: Node) -> dict[tuple[int, int], Layout]:
    """Follow the axes of the product q·k through the recorded operations."""
    numbers = itertools.count(SCORES + 1)
    layouts: dict[tuple[int, int], Layout] = {(id(start), 0): fresh(start.shapes[0], SCORES)}

    def leaf(value: Any) -> Any:
        if isinstance(value, Output):
            known = layouts.get((id(value.node), value.index))
            return known if known is not None else Unknown(value.node.shapes[value.index])
        shape = getattr(value, "shape", None)
        return Unknown(tuple(shape)) if shape is not None else value

    for node in nodes:
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


def _follow(
    node: Node,
    args: Any,
    kwargs: Any,
    shape: Shape,
    index: int,
    numbers: Iterator[int],
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


def _completed(layout: Layout, layouts: Mapping[tuple[int, int], Layout], node: Node) -> Layout:
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


def _flat(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _flat(item)
    elif isinstance(tree, dict):
        yield from _flat(tuple(tree.values()))
    else:
        yield tree
