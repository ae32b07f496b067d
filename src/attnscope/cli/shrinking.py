"""`attnscope verify --shrink`: the smallest inputs that still fail, and a program that shows it."""

from __future__ import annotations

from pathlib import Path

from attnscope.differ import Verification
from attnscope.differ.cases.made import qkv
from attnscope.differ.comparison import Comparison, Options
from attnscope.differ.entry import paired
from attnscope.differ.shrinking.smallest import Shrunk, shrink
from attnscope.differ.sides.subject import Subject
from attnscope.targets import Both


def shrunk(
    sides: Both, found: Verification, weights: str | Path, *, gradients: bool
) -> Shrunk | None:
    """Return the smallest inputs on which two sides fail as they did; None: they agree on theirs.

    Args:
        sides: both, with the inputs on which they were compared.
        found: the result of that.
        weights: how they were paired.
        gradients: whether gradients were compared.
    """
    if found.first_difference is None or not found.stages:
        return None
    pair = (
        Subject(sides.candidate.name, sides.candidate.run),
        Subject(sides.reference.name, sides.reference.run),
    )
    inputs = sides.inputs if sides.inputs is not None else qkv(found.seed)
    options = Options(
        dict(sides.expect),
        gradients=gradients,
        seed=found.seed,
        factor=found.tolerance.factor,
        weights=weights,
    )
    with sides.importing(), paired(pair, weights, inputs) as pairs:
        return shrink(Comparison(*pair, inputs, options, pairs), found)
