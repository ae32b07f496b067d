"""Saying in words how a tensor is made of others: whole, transposed, rows of a fused one ..."""

from __future__ import annotations

from math import gcd

import numpy as np

from attnscope.differ.pairing.arrangement import Arrangement, Block

_MOST_HEADS = 16  # listed one by one


def in_words(arrangement: Arrangement) -> str:
    """Return in a few words what is taken and where it goes."""
    if arrangement.identity:
        return "whole"
    if not arrangement.references:
        return f"filled with {arrangement.blocks[0].fill:g}"
    named = [block for block in arrangement.blocks if block.reference]
    zeros = any(not block.reference for block in arrangement.blocks)
    turned = _turned(arrangement)
    if len(arrangement.references) == 1:
        index = np.concatenate([block.index() for block in named])
        height = named[0].view.size(named[0].shape)[0]
        plain = len(index) == height and index[0] == 0 and _contiguous(index)
        told = "whole" if plain else _of_one(index, _axis(named[0]))
        if turned == "transposed" and told == "whole":
            told, turned = "transposed", ""
    else:
        told = _of_several(named)
    told += f", {turned}" if turned else ""
    return told + (", zeros where it has none" if zeros else "")


def _axis(block: Block) -> str:
    return "rows" if block.view.axes[:1] == (0,) else "columns"


def _turned(arrangement: Arrangement) -> str:
    """Say whether axes change their order on the way."""
    views = {block.view for block in arrangement.blocks if block.reference}
    if all(view == arrangement.view for view in views):
        return ""
    if len(arrangement.shape) == 2 and all(len(view.axes) == 2 for view in views):
        return "transposed"
    told = [f"its axes {block.view.axes}" for block in arrangement.blocks if not block.view.plain]
    if not arrangement.view.plain:
        told.append(f"as axes {arrangement.view.axes} of the candidate")
    return " ".join(dict.fromkeys(told)) or "reshaped"


def _contiguous(index: np.ndarray) -> bool:
    return bool((np.diff(index) == 1).all())


def _of_one(index: np.ndarray, axis: str) -> str:
    """Describe rows of one tensor."""
    if _contiguous(index):
        return f"{axis} [{index[0]}:{index[-1] + 1}]"
    for told in (_rotary(index), _heads(index, axis), _strided(index, axis)):
        if told:
            return told
    breaks = int((np.diff(index) != 1).sum()) + 1
    return f"{axis} in another order ({breaks} runs)"


def _rotary(index: np.ndarray) -> str:
    """Recognise pairs of rotary features, interleaved or in halves, converted into each other."""
    start = int(index.min())
    local = index - start
    for width in range(4, len(index) + 1, 2):
        if len(index) % width:
            continue
        halves = np.arange(width).reshape(-1, 2).T.reshape(-1)
        pairs = np.arange(width).reshape(2, -1).T.reshape(-1)
        heads = np.arange(len(index) // width)[:, None] * width
        for order, told in ((halves, "interleaved to halves"), (pairs, "halves to interleaved")):
            if np.array_equal(local, (heads + order).reshape(-1)):
                return f"rotary features from {told}, per head of {width}"
    return ""


def _heads(index: np.ndarray, axis: str) -> str:
    """Recognise blocks (heads) in another order, or copied."""
    starts = np.flatnonzero(np.diff(index) != 1) + 1
    size = 0
    for edge in (*starts, len(index)):
        size = gcd(size, int(edge))
    first = index[::size]
    if size < 2 or (first % size).any():
        return ""
    heads = first // size
    unique = np.unique(heads)
    listed = ", ".join(map(str, heads[:_MOST_HEADS])) + (
        ", ..." if len(heads) > _MOST_HEADS else ""
    )
    if len(unique) == len(heads):
        straight = len(heads) == heads.max() - heads.min() + 1
        return f"heads permuted [{listed}], {size} {axis} each" if straight else ""
    times = len(heads) // len(unique)
    if len(unique) == 1:
        return f"{axis} [{index[0]}:{index[0] + size}], {times} times over"
    if np.array_equal(heads, np.repeat(unique, times)):
        return f"each of {len(unique)} heads of {size} {axis} copied {times} times"
    if np.array_equal(heads, np.tile(unique, times)):
        return f"{len(unique)} heads of {size} {axis} tiled {times} times"
    return f"heads [{listed}], {size} {axis} each"


def _strided(index: np.ndarray, axis: str) -> str:
    """Recognise the same few rows of every so many: one part of a projection packed per head."""
    starts = np.flatnonzero(np.diff(index) != 1) + 1
    sizes = np.diff([0, *starts, len(index)])
    first = index[[0, *starts]]
    steps = np.diff(first)
    if (sizes != sizes[0]).any() or (steps != steps[0]).any() or steps[0] < sizes[0]:
        return ""
    at, period = int(first[0] % steps[0]), int(steps[0])
    return f"{axis} [{at}:{at + sizes[0]}] of every {period}, {len(first)} times"


def _of_several(blocks: list[Block]) -> str:
    """Describe rows of several tensors."""
    names = [block.reference for block in blocks]
    distinct = list(dict.fromkeys(names))
    short = ", ".join(_short(distinct))
    if len(names) == len(distinct):
        parts = [block.index() for block in blocks]
        heights = [block.view.size(block.shape)[0] for block in blocks]
        if all(
            _contiguous(index) and len(index) == height
            for index, height in zip(parts, heights, strict=True)
        ):
            return f"concatenation of {short}"
        told = [_of_one(index, _axis(block)) for index, block in zip(parts, blocks, strict=True)]
        return "; ".join(
            f"{what} of {name}" for what, name in zip(told, _short(distinct), strict=True)
        )
    turns = len(names) / len(distinct)
    if turns.is_integer() and names == distinct * int(turns):
        sizes = " + ".join(str(len(block.index())) for block in blocks[: len(distinct)])
        return f"{short} taken per head: {int(turns)} times {sizes} rows"
    return f"{len(names)} blocks of {short}"


def _short(names: list[str]) -> list[str]:
    """Return names without what they share at both ends."""
    split = [name.split(".") for name in names]
    while len({tuple(parts[:1]) for parts in split}) == 1 and all(len(p) > 1 for p in split):
        split = [parts[1:] for parts in split]
    while len({tuple(parts[-1:]) for parts in split}) == 1 and all(len(p) > 1 for p in split):
        split = [parts[:-1] for parts in split]
    return [".".join(parts) for parts in split]
