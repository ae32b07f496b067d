"""Features of q, k and v that come from elsewhere: swapped, split otherwise, heads reordered.

What the candidate has is looked up, feature by feature, among what the reference has in q, k and v;
so any order is read, also one without a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from attnscope.explain.change import Change
from attnscope.explain.kinds.around.other_weights import SPLIT, other_weights
from attnscope.explain.kinds.around.packing import splits_like
from attnscope.explain.reading.columns import Columns, Pool, find_columns
from attnscope.explain.reading.flow import CONTRACTIONS
from attnscope.explain.reading.levels import Level, levels
from attnscope.explain.reading.rotations import pairs_of
from attnscope.explain.reading.slack import slack_of
from attnscope.explain.scene import Scene

__all__ = ["projections"]

_NAMES = ("q", "k", "v")
_SHOWN = 6


def projections(scene: Scene) -> Iterator[Change]:
    """Propose that features of the projections are taken otherwise."""
    if scene.stage not in _NAMES or scene.expected.ndim != 4:
        return
    slack = slack_of(scene)
    own = scene.reference.stages, scene.reference.parts
    ways = {name: levels(own[0][name], own[1].get(name)) for name in _NAMES if name in own[0]}
    seen: list[Tensor] = []
    found = False
    for level in reversed(levels(scene.actual, scene.candidate.parts.get(scene.stage))):
        if any(level.tensor.shape == t.shape and torch.equal(level.tensor, t) for t in seen):
            continue
        seen.append(level.tensor)
        for pools in _pools(scene.stage, ways):
            columns = find_columns(level.tensor, pools, slack)
            if columns is None:
                continue
            found = True
            told = _told(columns, scene, ways)
            if told is not None:
                yield from _applied(told, columns, ways[scene.stage])
            break
    if not found:
        yield from other_weights(scene)


def _pools(stage: str, ways: dict[str, list[Level]]) -> Iterator[tuple[Pool, ...]]:
    """Iterate over features to look among: those of one level each of q, k and v."""
    order = [stage, *(name for name in _NAMES if name != stage)]
    order = [name for name in order if name in ways]
    for chosen in product(*(reversed(ways[name]) for name in order)):
        yield tuple(Pool(name, level.tensor) for name, level in zip(order, chosen, strict=True))


def _applied(told: tuple[str, str], columns: Columns, way: list[Level]) -> Iterator[Change]:
    """Propose the features that were found, at each level of the stage, what follows included."""
    tensor = columns.tensor()
    for level in reversed(way):
        if level.tensor.shape == tensor.shape:
            yield Change(*told, lambda level=level: level.onward(tensor))  # type: ignore[misc]


def _told(columns: Columns, scene: Scene, ways: dict[str, list[Level]]) -> tuple[str, str] | None:
    """Return the key and the text of where features come from; None: from where they belong."""
    stage, names = scene.stage, columns.names
    size = columns.feature.shape[1]
    if len(names) > 1:
        return _mixed(columns, stage, ways)
    (name,) = names
    if name != stage:
        return _taken(name, scene, columns, ways)
    heads, order = columns.heads, columns.order
    if heads == tuple(range(len(heads or ()))):
        return None
    if heads is not None:
        if len(set(heads)) < len(heads) or len(heads) != scene.expected.shape[1]:
            return None  # heads that are repeated are another kind
        return "heads-permuted", f"heads of {stage} in the order {_list(heads)}"
    if order is not None:
        return _laid(stage, order, size)
    flat = columns.head * size + columns.feature
    turned = torch.arange(flat.numel()).view(size, -1).T
    if torch.equal(flat, turned):
        text = (
            f"features of {stage} split as (head_dim, heads) = ({size}, {len(flat)}) where the "
            f"reference splits them as (heads, head_dim) = ({len(flat)}, {size})"
        )
        return "heads-by-view", text
    return _mixed(columns, stage, ways)


def _taken(
    name: str, scene: Scene, columns: Columns, ways: dict[str, list[Level]]
) -> tuple[str, str]:
    """Name a stage whose features are all those of another."""
    stage = scene.stage
    rest = "" if columns.heads is not None else ", features in another order"
    sources = {each: _source(each, scene, ways) for each in _NAMES} | {stage: name}
    text = f"{stage} is what the reference computes as {name}"
    if sorted(sources.values()) == sorted(_NAMES):
        moved = [each for each in _NAMES if sources[each] != each]
        text = ", ".join(f"{each} is the reference's {sources[each]}" for each in moved)
        if len(moved) == 2:
            text = f"{moved[0]} and {moved[1]} are swapped: {text}"
        order = [next(n for n in _NAMES if sources[n] == each) for each in _NAMES]
        if _is_fused(scene) or len(moved) == len(_NAMES):
            told = f"{SPLIT} [{' | '.join(order)}] where the reference has [q | k | v]"
            return "split-order", f"{told}; {text}{rest}"
    return ("k-for-v" if "v" in {stage, name} else "q-k-swapped"), text + rest


def _source(name: str, scene: Scene, ways: dict[str, list[Level]]) -> str:
    """Return which stage of the reference the candidate has as `name`; "": none."""
    slack = slack_of(scene)
    part = scene.candidate.parts.get(name)
    ours = part.run() if part is not None else scene.candidate.stages.get(name)
    if ours is None:
        return ""
    way = levels(ours, part)
    for other in (name, *_NAMES):
        for theirs in ways.get(other, []):
            for level in way:
                alike = level.tensor.shape == theirs.tensor.shape
                if alike and float((level.tensor - theirs.tensor).abs().max()) <= slack:
                    return other
    return ""


def _is_fused(scene: Scene) -> bool:
    """Return whether one projection of the candidate makes more than one stage."""
    part = scene.candidate.parts.get(scene.stage)
    if part is None:
        return False
    width = scene.actual.shape[1] * scene.actual.shape[3]
    made = [op for op in part.operations if op.name in CONTRACTIONS]
    return any(op.shapes and op.shapes[0][-1] > width for op in made)


def _laid(stage: str, order: tuple[int, ...], size: int) -> tuple[str, str]:
    """Name one order of features inside every head."""
    interleaved = torch.cat(pairs_of("interleaved", size)).tolist() if size % 2 == 0 else []
    known = {
        tuple(interleaved): f"for pairs (i, i + {size // 2}) from pairs (2i, 2i + 1)",
        tuple(torch.tensor(interleaved).argsort().tolist()): f"for pairs (2i, 2i + 1) from pairs "
        f"(i, i + {size // 2})",
    }
    if order in known:
        return "rotary-pairing", f"features of each head of {stage} laid out {known[order]}"
    return "split-order", f"features of each head of {stage} in the order {_list(order)}"


def _mixed(columns: Columns, stage: str, ways: dict[str, list[Level]]) -> tuple[str, str] | None:
    """Name features of several stages, or of several heads, in one."""
    sizes = {name: (way[-1].tensor.shape[1], way[-1].tensor.shape[3]) for name, way in ways.items()}
    split = splits_like(columns, stage, sizes) if set(sizes) == set(_NAMES) else None
    if split is not None:
        return (
            "split-order",
            f"{SPLIT} {split.split} where it is packed as {split.packed}",
        )
    if len(columns.names) == 1:
        return None  # some order without a name
    first = [
        f"{columns.pools[int(p)].name}[head {int(h)}, feature {int(f)}]"
        for p, h, f in zip(columns.pool[0], columns.head[0], columns.feature[0], strict=True)
    ]
    return "split-order", f"the first features of {stage} are those of {', '.join(first[:4])}"


def _list(numbers: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    return f"({shown}{', …' if len(numbers) > _SHOWN else ''})"
