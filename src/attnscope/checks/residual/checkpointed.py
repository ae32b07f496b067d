"""Reentrant checkpoints that get nothing to send a gradient back to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnscope.calls.source import Source
from attnscope.checks.probes.backward import gradient_sizes
from attnscope.checks.residual.owning import attending, own_parameters
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.checkpoints import opened_checkpoints
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.outputs import outputs_of

__all__ = ["Lost", "lost_in_checkpoints"]


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """Parameters of attention that get no gradient in train mode for a checkpoint's sake.

    without: the largest entry of their gradients where what it wraps is called by itself. a_part:
    features come in and go out with one width, as through a layer of a larger model.
    """

    parameters: tuple[str, ...]
    without: float
    source: Source | None
    a_part: bool


def lost_in_checkpoints(subject: Subject) -> Iterator[Lost]:
    """Find reentrant checkpoints of which no input needs a gradient, in train mode."""
    model = subject.model
    if model is None or not any(p.requires_grad for p in model.parameters()):
        return
    outputs: dict[str, Tensor] = {}
    with opened_checkpoints(replaced=False) as lines, contextlib.suppress(Skipped):
        outputs = outputs_of(subject.raw(train=True, graded=True))
    if not lines or not outputs:
        return
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with_them = gradient_sizes(outputs.values(), trained)
    with opened_checkpoints(replaced=True):
        again = outputs_of(subject.raw(train=True, graded=True))
        without = gradient_sizes(again.values(), trained)
    names = [n for owner in attending(subject, model) for n in own_parameters(model, owner)]
    lost = [n for n in dict.fromkeys(names) if with_them.get(n, 0.0) == 0.0 < without.get(n, 0.0)]
    if lost:
        largest = max(without[name] for name in lost)
        yield Lost(tuple(lost), largest, lines[0], _is_a_part(subject))


def _is_a_part(subject: Subject) -> bool:
    main = subject.roles.main
    if main is None or main.kind != "features":
        return False
    return bool(subject.given.values[main.name].shape[-1] == subject.output.shape[-1])
