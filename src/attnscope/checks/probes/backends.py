"""The same inputs by another way of the model's own, and the same tensors by other kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from attnscope.calls.call import Call
from attnscope.checks.comparing import finite_gap
from attnscope.checks.probe import probe
from attnscope.checks.probes.disagreement import APART, Disagreement
from attnscope.checks.probes.kernels import by_blocks, by_kernel
from attnscope.checks.probes.recomputed import what_parts
from attnscope.checks.probes.toggled_arguments import toggled_arguments
from attnscope.checks.probes.ways import TRAIN, other_ways
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.side import Side

__all__ = ["backends"]


@probe
def backends(subject: Subject) -> tuple[Disagreement, ...]:
    """Take the other way at every switch of the model, and run its kernels' tensors elsewhere."""
    found = []
    for switch, run, watched in other_ways(subject):
        try:
            other = run()
        except Skipped:
            continue
        gap = finite_gap(subject.output, other)
        if not subject.output.numel():
            break
        limit = max(subject.noise, APART * float(subject.output.abs().nan_to_num().max()))
        if gap is None or gap <= limit:
            continue
        side = watched()
        if not (
            _has_other_weights(subject.base, side)
            or _is_told_as_ignored(subject, side)
            or _is_told_as_leak(subject, side)
            or (switch == TRAIN and _is_of_padding(subject))
        ):
            found.append(_explained(subject, switch, gap, limit, side))
    return (*found, *by_kernel(subject), *by_blocks(subject))


def _has_other_weights(ours: Side, theirs: Side) -> bool:
    """Return whether each way has parameters that the other does not read: two models in one."""
    first, second = ({side.parameters[v] for v in _read(side)} for side in (ours, theirs))
    return bool(first - second) and bool(second - first)


def _read(side: Side) -> Iterator[int]:
    return (value for value in side.parameters if side.tape.users.get(value))


def _is_told_as_ignored(subject: Subject, theirs: Side) -> bool:
    """Return whether AS208 says it: a mask is given and this way alone leaves it out."""
    calls = [call for call in theirs.trace if not call.recomputed]
    pairs = list(zip(subject.calls, calls, strict=False))
    bare = [not mine.recipe.mask.hides and their.recipe.mask.hides for mine, their in pairs]
    if not any(bare) or any(_difference(*pair, masks=False) for pair in pairs):
        return False
    try:
        return any(each.ignored for each in toggled_arguments(subject))
    except Skipped:
        return False


def _is_told_as_leak(subject: Subject, theirs: Side) -> bool:
    """Return whether AS201 says it: the way taken lacks the causal mask that the other one has."""
    if subject.causal is None or not subject.causal.value:
        return False
    calls = [call for call in theirs.trace if not call.recomputed]
    pairs = list(zip(subject.calls, calls, strict=False))
    bare = [_is_causal(their) and not _is_causal(mine) for mine, their in pairs]
    return any(bare) and not any(_difference(*pair, masks=False) for pair in pairs)


def _is_causal(call: Call) -> bool:
    return any(kind.startswith("causal") for kind in call.recipe.mask.kinds)


def _is_of_padding(subject: Subject) -> bool:
    """Return whether the ways agree where nothing is padding.

    What they leave at padded places is theirs to choose; what reads it is told by AS202.
    """
    given = subject.given
    for padding in subject.roles.padding:
        try:
            real = padding.real(given)
            if not bool(real.all()):
                given = padding.written(given, torch.ones_like(real))
        except UNREADABLE:
            return False
    if given is subject.given:
        return False
    try:
        pair = subject.main_output(given), subject.main_output(given, train=True)
    except Skipped:
        return False
    gap = finite_gap(*pair)
    limit = max(subject.noise, APART * float(pair[0].abs().nan_to_num().max()))
    return gap is not None and gap <= limit


def _explained(
    subject: Subject, switch: str, gap: float, limit: float, other: Side
) -> Disagreement:
    for ours, their in zip(subject.base.located, other.located, strict=False):
        reason, explained = _difference(ours.call, their.call), what_parts(ours, their)
        if reason or explained:
            call = ours.call
            return Disagreement(switch, gap, limit, reason, call, call.source, explained)
    first = subject.calls[0] if subject.calls else None
    return Disagreement(switch, gap, limit, "", first, first.source if first else None)


def _difference(ours: Call, theirs: Call, *, masks: bool = True) -> str:
    """Return how two recipes differ, in words; masks: theirs count, too."""
    a, b = ours.recipe, theirs.recipe
    found = []
    scales = (a.scale, b.scale)
    if all(isinstance(s, int | float) for s in scales) and not math.isclose(*scales, rel_tol=1e-3):  # type: ignore[arg-type]
        found.append(f"scale {scales[0]:.4g} against {scales[1]:.4g}")
    if a.softcap != b.softcap:
        found.append(f"soft cap {a.softcap} against {b.softcap}")
    if masks and a.mask.kind != b.mask.kind:
        found.append(f"mask {a.mask.kind} against {b.mask.kind}")
    if (a.bias is None) != (b.bias is None):
        found.append("a bias in one of them only")
    if a.dropout != b.dropout:
        found.append(f"dropout {a.dropout} against {b.dropout}")
    return ", ".join(found)
