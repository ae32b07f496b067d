"""Heads split or merged by a view where an axis had to be moved, and heads in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import torch
from torch import Tensor

from attnscope.calls.exact import widened
from attnscope.explain.change import Change
from attnscope.explain.part import Part
from attnscope.explain.reading.levels import levels
from attnscope.explain.scene import Scene, Sight

__all__ = ["heads_by_view", "heads_merged_otherwise", "merged_by_view"]

_AXES = ("batch", "heads", "length", "head_dim")
_CLOSE = 1e-3
"""How like each other tensors are for a change to be tried."""
_MOST_HEADS = 32
"""Heads whose order is looked for after the output projection."""


def heads_by_view(scene: Scene) -> Iterator[Change]:
    """Propose that heads are split by a view alone, of batch-first or length-first features."""
    if scene.stage not in {"q", "k", "v"} or scene.expected.ndim != 4:
        return
    part = scene.candidate.parts.get(scene.stage)
    ours = levels(scene.actual, part)
    for level in reversed(levels(scene.expected, scene.reference.parts.get(scene.stage))):
        for text, value in _split_otherwise(level.tensor):
            if part is not None and not any(_alike(each.tensor, value) for each in ours):
                continue
            yield Change(
                "heads-by-view",
                f"{scene.stage} {text}, and moves the heads",
                lambda level=level, value=value: level.onward(value),  # type: ignore[misc]
            )


def _alike(first: Tensor, second: Tensor) -> bool:
    """Return whether tensors are equal but for what rounding or a norm's epsilon may leave."""
    if first.shape != second.shape:
        return False
    return float((first - second).abs().mean()) <= _CLOSE * float(second.abs().mean())


def _split_otherwise(split: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Iterate over what else the features of q, k or v can be viewed as, in words."""
    sizes = dict(zip(_AXES, split.shape, strict=True))
    seen = [split]
    for first in ("batch", "length"):
        second = "length" if first == "batch" else "batch"
        right = (first, second, "heads", "head_dim")
        flat = split.permute([_AXES.index(name) for name in right]).flatten()
        whole = (sizes[first], sizes[second], sizes["heads"] * sizes["head_dim"])
        for order in permutations(_AXES):
            shape = [sizes[name] for name in order]
            value = flat.reshape(shape).permute([order.index(name) for name in _AXES])
            if any(torch.equal(value, each) for each in seen):
                continue
            seen.append(value)
            text = (
                f"{whole} is viewed as {_named(order)} = {tuple(shape)}, where the reference "
                f"views it as {_named(right)} = {tuple(sizes[name] for name in right)}"
            )
            yield text, value


def _named(axes: tuple[str, ...]) -> str:
    return f"({', '.join(axes)})"


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """The context as an output part takes it, and as it may be put in its place."""

    part: Part
    value: int
    tensor: Tensor
    write: Callable[[Tensor], Tensor]

    def stage(self, tensor: Tensor) -> Tensor:
        """Return the stage that follows from another context."""
        return self.part.run(given={self.value: widened(self.write(tensor))})


def _context(scene: Scene) -> _Context | None:
    """Find the context of the call among what the part of the reference takes."""
    sight: Sight = scene.reference
    part, call = sight.parts.get(scene.stage), sight.call
    if scene.stage not in {"output", "model"} or part is None or call is None:
        return None
    spot = call.evidence.spot("context")
    if spot is None:
        return None
    for value in sorted(part.given, reverse=True):
        own = part.given[value]
        if own.shape == spot.held.shape:
            return _Context(part, value, spot.read(own).double(), spot.write)
    return None


def merged_by_view(scene: Scene) -> Iterator[Change]:
    """Propose that heads are merged by a view alone, into batch-first or length-first features."""
    found = _context(scene)
    if found is None or found.tensor.ndim != 4:
        return
    merged = list(_merged_otherwise(found.tensor))
    for text, value in merged:
        yield Change("merge-by-view", text, partial(found.stage, value))
    batch, _, length, _ = found.tensor.shape
    if scene.expected.shape[:-1] != (batch * length,):
        return
    # Rows of all samples in one axis are matched by how like they are, which a fault may mislead.
    for text, value in merged:
        for rows in ((batch, length), (length, batch)):
            yield Change("merge-by-view", text, partial(_laid, found, value, rows))


def _laid(found: _Context, value: Tensor, rows: tuple[int, int]) -> Tensor:
    """Return the stage with the rows of samples and positions in the other order."""
    made = found.stage(value)
    return made.view(*rows, -1).transpose(0, 1).reshape(made.shape)


def _merged_otherwise(context: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Iterate over contexts whose merged heads are another view, in words."""
    seen = [context]
    sizes = dict(zip(_AXES, context.shape, strict=True))
    for first, second in (("batch", "length"), ("length", "batch")):
        right = (first, second, "heads", "head_dim")
        target = tuple(sizes[name] for name in right)
        for order in permutations(_AXES):
            tensor = context.permute([_AXES.index(name) for name in order])
            value = tensor.reshape(target).permute([right.index(name) for name in _AXES])
            if any(torch.equal(value, each) for each in seen):
                continue
            seen.append(value)
            text = (
                f"heads merged by a view of the context as {_named(order)} = "
                f"{tuple(tensor.shape)}, where the reference merges {_named(right)} = {target}"
            )
            yield text, value


def heads_merged_otherwise(scene: Scene) -> Iterator[Change]:
    """Propose that the output projection meets the heads in another order."""
    found = _context(scene)
    if found is None or scene.actual.shape != scene.expected.shape:
        return
    heads = found.tensor.shape[1]
    if heads > _MOST_HEADS or heads == 1:
        return
    order = _order_of(found, scene.actual)
    if order is None or order == list(range(heads)):
        return
    yield Change(
        "heads-permuted",
        f"the output projection receives the heads in the order {tuple(order)}",
        lambda: found.stage(found.tensor[:, order]),
    )


def _order_of(found: _Context, actual: Tensor) -> list[int] | None:
    """Solve for the head that stands at each place; None: it is no order of heads.

    output = offset + Σ over places and heads of share[place, head] · (head through that place).
    """
    context, heads = found.tensor, found.tensor.shape[1]
    offset = found.stage(torch.zeros_like(context))
    columns = []
    for place in range(heads):
        for head in range(heads):
            alone = torch.zeros_like(context)
            alone[:, place] = context[:, head]
            columns.append((found.stage(alone) - offset).flatten())
    system = torch.stack(columns, 1)
    if system.shape[0] < system.shape[1]:
        return None
    shares = torch.linalg.lstsq(system, (actual - offset).flatten()).solution.view(heads, heads)
    order = shares.argmax(1).tolist()
    return order if sorted(order) == list(range(heads)) else None
