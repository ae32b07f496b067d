"""Projections that receive another sequence than they should."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnscope.explain.change import Change
from attnscope.explain.scene import Scene

__all__ = ["other_stream"]

_NAMES = ("q", "k", "v")
_SEQUENCES = {"input": "queries", "input_q": "queries", "input_k": "keys", "input_v": "values"}


def other_stream(scene: Scene) -> Iterator[Change]:
    """Propose that a projection receives another sequence."""
    if scene.stage.startswith("input"):
        yield from _other_input(scene)
    part = scene.reference.parts.get(scene.stage)
    if scene.stage not in _NAMES or part is None or part.origin is None:
        return
    origin, known = part.origin, part.given.get(part.origin)
    for name, theirs in _received(scene):
        if known is not None and theirs.shape == known.shape and torch.equal(theirs, known):
            continue
        yield Change(
            "wrong-stream",
            f"{scene.stage} is computed from what {name} is computed from {tuple(theirs.shape)}, "
            "where the reference computes it from another sequence",
            lambda theirs=theirs: part.run(given={origin: theirs}),  # type: ignore[misc]
        )


def _other_input(scene: Scene) -> Iterator[Change]:
    """Propose that a projection receives what another one should."""
    own = _SEQUENCES.get(scene.stage, "?")
    for name, theirs in _inputs(scene):
        yield Change(
            "wrong-stream",
            f"{own} are computed from the sequence {tuple(theirs.shape)} that the reference "
            f"computes {_SEQUENCES.get(name, '?')} from",
            lambda theirs=theirs: theirs,  # type: ignore[misc]
        )


def _inputs(scene: Scene) -> Iterator[tuple[str, Tensor]]:
    """Iterate over what the projections of the reference receive, that of the stage left out."""
    for name, theirs in scene.reference.stages.items():
        if name.startswith("input") and name != scene.stage:
            yield name, theirs
    for name in _NAMES:
        part = scene.reference.parts.get(name)
        if part is None or part.origin is None or scene.stage == f"input_{name}":
            continue
        theirs = part.values([part.origin])[part.origin]
        if theirs.shape != scene.expected.shape and theirs.ndim == scene.expected.ndim:
            theirs = theirs.transpose(0, 1)  # (length, batch, width)
        if theirs.shape == scene.expected.shape and not torch.equal(theirs, scene.expected):
            yield f"input_{name}", theirs


def _received(scene: Scene) -> Iterator[tuple[str, Tensor]]:
    """Iterate over what the projections of the other stages receive."""
    for name in _NAMES:
        part = scene.reference.parts.get(name)
        if name != scene.stage and part is not None and part.origin is not None:
            theirs = part.given.get(part.origin)
            if theirs is not None:
                yield name, theirs
