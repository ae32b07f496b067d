"""A projection that is frozen alone, while all else of its attention is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from attnscope.calls.source import Source
from attnscope.checks.definitions import defined
from attnscope.checks.residual.graph import projection_of
from attnscope.checks.residual.owning import own_parameters
from attnscope.checks.statements import first_where, mentions, texts
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located

__all__ = ["Frozen", "frozen_alone"]

_SWITCHES = ("requires_grad", "requires_grad_")


@dataclass(frozen=True, slots=True)
class Frozen:
    """The weights of one of q, k and v (`part`) that are frozen.

    trained: how many other matrices of the model are trained; meant: the code names it, and freezes
    nothing but such projections, or it was done out of sight.
    """

    part: str
    names: tuple[str, ...]
    trained: int
    source: Source | None
    meant: bool
    located: Located


def frozen_alone(subject: Subject) -> Iterator[Frozen]:
    """Iterate over frozen projections of one of q, k and v, in modules that train all else.

    Adapters train a little of a frozen model, and fine-tuning a list of parts: here it is the other
    way round, most of the model is trained.
    """
    model = subject.model
    if model is None:
        return
    known = {name: p for name, p in model.named_parameters() if p.dim() > 1}
    trained = [name for name, p in known.items() if p.requires_grad]
    found: list[tuple[str, list[str], Located]] = []
    for located in subject.base.located:
        parts: dict[str, list[str]] = {}
        for part in ("q", "k", "v"):
            read = projection_of(subject, [v for v, _ in located.spots.get(part, [])])
            parts[part] = [name for name in read if name in known]
        still = [p for p, names in parts.items() if not any(known[n].requires_grad for n in names)]
        if len(still) != 1 or not all(parts.values()):
            continue
        names = parts[still[0]]
        beside = [n for n in own_parameters(model, located.call.module) if n in known]
        if all(known[n].requires_grad or n in names for n in beside):
            found.append((still[0], names, located))
    everything = {name for _, names, _ in found for name in names}
    frozen = [name for name in known if name not in trained]
    if not found or 2 * len(trained) <= len(known):
        return
    alone = everything.issuperset(frozen)
    for part, names, located in found:
        line = _line(model, names)
        meant = line is None or (alone and _is_named(model, names))
        source = line or defined(model, names[0])
        yield Frozen(part, tuple(names), len(trained), source, meant, located)


def _is_named(model: nn.Module, names: list[str]) -> bool:
    """Return whether some text or attribute in the author's code is that of a frozen projection."""
    parts = {part for name in names for part in name.split(".")[:-1] if not part.isdigit()}
    own = parts - {part for name in names for part in name.split(".")[:-2]}
    if any(not own.isdisjoint(text.split(".")) for text in texts(model)):
        return True
    by_name = first_where(model, lambda n: mentions(n, *_SWITCHES) and mentions(n, *own))
    return by_name is not None


def _line(model: nn.Module, names: list[str]) -> Source | None:
    """Return the line that freezes: one that names the projection, else the first of all.

    None: no line of the model's own code does.
    """
    own = names[0].split(".")[-2:-1]
    by_name = first_where(model, lambda n: mentions(n, *_SWITCHES) and mentions(n, *own))
    any_of = first_where(model, lambda node: mentions(node, *_SWITCHES))
    return by_name or any_of
