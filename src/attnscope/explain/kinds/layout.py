"""Heads split or merged by a view where an axis had to be moved, and heads in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.exact import widened
from attnscope.explain.change import Change
from attnscope.explain.levels import levels
from attnscope.explain.part import Part
from attnscope.explain.scene import Scene, Sight

__all__ = ["heads_by_view", "heads_merged_otherwise", "merged_by_view"]

_MOST_HEADS = 32
"""Heads whose order is looked for after the output projection."""


def heads_by_view(scene: Scene) -> Iterator[Change]:
    """Propose that heads are split by a view alone."""
    if scene.stage not in {"q", "k", "v"} or scene.expected.ndim != 4:
        return
    for level in reversed(levels(scene.expected, scene.reference.parts.get(scene.stage))):
        batch, heads, length, size = level.tensor.shape
        merged = level.tensor.transpose(1, 2).reshape(batch, length, heads * size)
        tokens = merged.transpose(0, 1)
        for shape, value in {
            f"(batch, heads, length, head_dim) = {(batch, heads, length, size)}": merged.reshape(
                batch, heads, length, size
            ),
            f"(batch, heads, head_dim, length), turned = {(batch, heads, size, length)}": (
                merged.reshape(batch, heads, size, length).mT
            ),
            f"(length, heads, batch, head_dim) = {(length, heads, batch, size)}": (
                merged.reshape(length, heads, batch, size).permute(2, 1, 0, 3)
            ),
            f"(batch, length, …) from (length, batch, …) = {(batch, length, heads * size)}": (
                tokens.reshape(batch, length, heads, size).transpose(1, 2)
            ),
            f"(batch, length, head_dim, heads) = {(batch, length, size, heads)}": (
                merged.reshape(batch, length, size, heads).permute(0, 3, 1, 2)
            ),
        }.items():
            if torch.equal(value, level.tensor):
                continue
            yield Change(
                "heads-by-view",
                f"{scene.stage} {tuple(merged.shape)} is viewed as {shape}, where the reference "
                f"views it as (batch, length, heads, head_dim) = {(batch, length, heads, size)} "
                "and moves the heads",
                lambda level=level, value=value: level.onward(value),  # type: ignore[misc]
            )


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
    """Propose that heads are merged by a view alone."""
    found = _context(scene)
    if found is None or found.tensor.ndim != 4:
        return
    batch, heads, length, size = found.tensor.shape
    target = (batch, length, heads, size)
    ways = {
        "(batch, heads, length, head_dim)": found.tensor,
        "(batch, length, head_dim, heads)": found.tensor.permute(0, 2, 3, 1),
        "(batch, heads, head_dim, length)": found.tensor.mT,
        "(batch, head_dim, heads, length)": found.tensor.permute(0, 3, 1, 2),
        "(length, batch, heads, head_dim)": found.tensor.permute(2, 0, 1, 3),
        "(heads, batch, length, head_dim)": found.tensor.transpose(0, 1),
    }
    for text, tensor in ways.items():
        value = tensor.reshape(target).transpose(1, 2)
        if torch.equal(value, found.tensor):
            continue
        yield Change(
            "merge-by-view",
            f"heads merged by a view of the context as {text} = {tuple(tensor.shape)}, where the "
            f"reference merges (batch, length, heads, head_dim) = {target}",
            lambda value=value: found.stage(value),  # type: ignore[misc]
        )


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
