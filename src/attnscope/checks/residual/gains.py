"""How projections of q and k scale what they receive, and what scores that gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnscope.checks.drawn import drawn
from attnscope.checks.residual.graph import behind
from attnscope.checks.residual.stream import CONTRACTIONS
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located
from attnscope.errors import AttnscopeError

__all__ = ["Gains", "gains"]


@dataclass(frozen=True, slots=True)
class Gains:
    """Of one call. q, k: rms of what the projection returns over rms of what it receives; names: of the
    weights; stds: of their entries; scores: standard deviation of the scaled q·k.
    """

    located: Located
    q: float
    k: float
    names: tuple[str, ...]
    stds: tuple[float, ...]
    scores: float


def gains(subject: Subject) -> Iterator[Gains]:
    """Iterate over the calls whose weights for q and k are both as an initialiser drew them."""
    for located in subject.base.located:
        sides = [_side(subject, located, name) for name in ("q", "k")]
        spread = _spread(located)
        if spread is None or sides[0] is None or sides[1] is None:
            continue
        q, k = sides
        names = tuple(dict.fromkeys((*q[1], *k[1])))
        stds = [_drawn_std(subject, name) for name in names]
        if names and all(std is not None for std in stds):
            yield Gains(located, q[0], k[0], names, tuple(s for s in stds if s is not None), spread)


def _side(subject: Subject, located: Located, name: str) -> tuple[float, list[str]] | None:
    tape, names = subject.base.tape, subject.base.parameters
    received = located.received.get(name)
    if received is None:
        return None
    values = [value for value, _ in located.spots[name]]
    for operation in behind(tape, values, [received]):
        read = [names[v] for v in operation.values() if v in names]
        if operation.name not in CONTRACTIONS or received not in operation.values():
            if operation.name in CONTRACTIONS and read:
                return _gain(tape.tensors, received, operation.defines[0]), read
            continue
        if read:
            return _gain(tape.tensors, received, operation.defines[0]), _matrices(subject, read)
    return None


def _matrices(subject: Subject, names: list[str]) -> list[str]:
    known = dict(subject.model.named_parameters()) if subject.model is not None else {}
    return [name for name in names if name in known and known[name].dim() > 1]


def _gain(tensors: dict[int, Tensor], received: int, made: int) -> float:
    before, after = (
        float(tensors[v].detach().double().square().mean().sqrt()) for v in (received, made)
    )
    return after / max(before, 1e-12)


def _spread(located: Located) -> float | None:
    call = located.call
    scale = call.recipe.scale
    try:
        q, k = call.q.detach().double(), call.k.detach().double()
    except (AttnscopeError, RuntimeError):
        return None
    if not isinstance(scale, int | float) or q.shape[1] % k.shape[1] or q.numel() == 0:
        return None
    scores = q[:1] @ k[:1].repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT * scale
    return float(scores.std()) if scores.numel() > 1 else None


def _drawn_std(subject: Subject, name: str) -> float | None:
    parameter = (
        dict(subject.model.named_parameters()).get(name) if subject.model is not None else None
    )
    found = None if parameter is None else drawn(parameter)
    return None if found is None else found.std
