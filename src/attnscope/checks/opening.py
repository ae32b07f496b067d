"""A model whose attention isn't heard yet (a gate that starts at zero), with its gates opened.

ReZero, LayerScale, adaLN-zero, zero-initialised projections and convolutions start as if there were
no attention. Whatever is judged by the output's moving would see nothing move, and call a mask
ignored or a leak absent. So such a model is copied, what is all zero there and learns gets other
numbers, as its first steps would give it, and the rules look at the copy.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from attnscope.checks.probes.backward import backward
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject

__all__ = ["opened"]


def opened(subject: Subject) -> tuple[Subject, tuple[str, ...]]:
    """Return the subject with its gates opened, and their names; itself, where all is heard.

    Unheard is a call of which v gets a gradient of exactly zero. What shuts it is all zero itself
    and does get one: so does nothing that is zero for good.
    """
    model = subject.model
    if model is None or subject.crash is not None or not _may_be_shut(model):
        return subject, ()
    try:
        found = backward(subject)
    except Skipped:
        return subject, ()
    values = [v for each in subject.base.located for v, _ in each.spots.get("v", [])]
    if all(_is_heard(found.values.get(value)) for value in values):
        return subject, ()
    gradients = found.parameters.items()
    zero = {n for n, p in model.named_parameters() if not bool(p.any())}
    gates = tuple(n for n, each in gradients if n in zero and each is not None and each.any())
    other = _copied(subject, model, gates) if gates else None
    return (subject, ()) if other is None or other.crash is not None else (other, gates)


def _may_be_shut(model: nn.Module) -> bool:
    """Return whether something learns, is all zero and no bias, which most are at the start."""
    return any(
        p.requires_grad and p.numel() > 0 and not name.endswith("bias") and not bool(p.any())
        for name, p in model.named_parameters()
    )


def _is_heard(gradient: Tensor | None) -> bool:
    return gradient is None or bool(gradient.any())


def _copied(subject: Subject, model: nn.Module, gates: tuple[str, ...]) -> Subject | None:
    """Return the subject of a copy of the model with other numbers in its gates."""
    try:
        twin = copy.deepcopy(model)
    except Exception:  # noqa: BLE001  some models can't be copied: they are judged as they are
        return None
    generator = torch.Generator().manual_seed(subject.seed)
    known = dict(twin.named_parameters())
    with torch.no_grad():
        for name in gates:
            known[name].copy_(_other(known[name], generator))
    return subject.of_model(twin)


def _other(gate: Tensor, generator: torch.Generator) -> Tensor:
    """Return numbers for a gate: of matrices, such that what they make keeps its size."""
    drawn = torch.rand(gate.shape, generator=generator) * 0.5 + 0.25
    if gate.dim() > 1:
        drawn = torch.randn(gate.shape, generator=generator).div(gate[0].numel() ** 0.5)
    return drawn
