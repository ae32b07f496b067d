"""How projections of q and k scale what they receive, and what scores that gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from attnscope.checks.definitions import owner_of
from attnscope.checks.drawn import default_bounds, drawn, is_uniform_within
from attnscope.checks.initialising import fills
from attnscope.checks.residual.graph import behind
from attnscope.checks.residual.stream import PRODUCTS
from attnscope.checks.subject.libraries import is_of_model_library
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located
from attnscope.errors import AttnscopeError

__all__ = ["Gains", "gains"]


@dataclass(frozen=True, slots=True)
class Gains:
    """How the projections of one call scale.

    q, k: rms of what the projection returns over rms of what it receives; names: of the weights;
    stds: of their entries; scores: standard deviation of the scaled q·k within its rows, as a
    softmax takes no notice of what a whole row has in common.
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
        q, k = (_side(subject, located, name) for name in ("q", "k"))
        spread = _spread(located)
        if spread is None or q is None or k is None:
            continue
        names = tuple(dict.fromkeys((*q[1], *k[1])))
        stds = [_drawn_std(subject, name) for name in names]
        if any(_is_past_its_start(subject, name) for name in names):
            continue
        if names and all(std is not None for std in stds):
            yield Gains(located, q[0], k[0], names, tuple(s for s in stds if s is not None), spread)


def _side(subject: Subject, located: Located, name: str) -> tuple[float, list[str]] | None:
    """Return the gain of the projection nearest to q or k, and the names of its weights."""
    tape, names = subject.base.tape, subject.base.parameters
    received = located.received.get(name)
    if received is None:
        return None
    values = [value for value, _ in located.spots[name]]
    for operation in reversed(behind(tape, values, [received])):
        read = [names[v] for v in operation.values() if v in names]
        moving = [v for v in operation.values() if v not in subject.base.weights]
        if operation.name in PRODUCTS and read and moving:
            return _gain(tape.tensors, moving[0], operation.defines[0]), _matrices(subject, read)
    return None


def _is_past_its_start(subject: Subject, name: str) -> bool:
    """Return whether a weight of nn.Linear is no longer as torch draws it, and the code fills none.

    It was scaled, trained or loaded since.
    """
    holder = owner_of(subject.model, name) if subject.model is not None else None
    if subject.model is None or not isinstance(holder, nn.Linear) or fills(subject.model, name):
        return False
    return not is_uniform_within(holder.weight, default_bounds(holder.weight)[0])


def _matrices(subject: Subject, names: list[str]) -> list[str]:
    """Return the names of weights that are matrices, of the author's own modules."""
    model = subject.model
    known = dict(model.named_parameters()) if model is not None else {}
    wanted = [name for name in names if name in known and known[name].dim() > 1]
    return [name for name in wanted if model is not None and not _is_library(model, name)]


def _is_library(model: nn.Module, name: str) -> bool:
    """Return whether a weight was drawn as some library's configuration says."""
    parts = name.split(".")
    owners = (model.get_submodule(".".join(parts[:size])) for size in range(len(parts)))
    return any(is_of_model_library(owner) for owner in owners)


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
    apart = scores - scores.mean(-1, keepdim=True)
    return float(apart.square().mean().sqrt()) if scores.shape[-1] > 1 else None


def _drawn_std(subject: Subject, name: str) -> float | None:
    parameter = (
        dict(subject.model.named_parameters()).get(name) if subject.model is not None else None
    )
    found = None if parameter is None else drawn(parameter)
    return None if found is None else found.std
