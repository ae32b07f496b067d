"""Which keys of a call are padding, and which are real tokens, where keys are no longer tokens.

Where a token in front, a learned key or several keys a token were put in, or several tokens made
one key, the keys don't lie where the tokens do. A change of padded tokens alone then shows which
keys are padding.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attnscope.checks.influence import differs
from attnscope.checks.masking.refilling import refilled
from attnscope.checks.masking.seen import Seen
from attnscope.checks.subject.roles import Padding
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Sides", "sides_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Keys that follow real tokens, and keys that follow padding: (batch, keys), some are neither.

    mixed: samples that have both.
    """

    real: Tensor
    padded: Tensor

    @property
    def mixed(self) -> Tensor:
        """Which samples have keys of both kinds, (batch,)."""
        return self.real.any(1) & self.padded.any(1)


def sides_of(subject: Subject, seen: Seen, padding: Padding) -> Sides | None:
    """Return the sides of a call's keys; None: they can't be told, or no sample has both."""
    call, real = seen.call, padding.real(subject.given)
    if tuple(real.shape) == (call.batch, call.keys):
        found: Sides | None = Sides(real, ~real)
    elif call.batch != real.shape[0] or not bool((~real).any()):
        return None
    else:
        key = ("sides", padding.name, call.batch, call.keys)
        found = subject.once(key, lambda: _followed(subject, seen, padding, real))
    return found if found is not None and bool(found.mixed.any()) else None


def _followed(subject: Subject, seen: Seen, padding: Padding, real: Tensor) -> Sides | None:
    """Change padded tokens, then real ones, and see which keys of the first such call move."""
    if seen.course is None or not subject.base.is_faithful:
        return None
    ((value, spot),) = seen.course.located.spots["k"]
    try:
        tape = subject.base.tape
        before = tape.run([value], wide=True)[value]
        rows = []
        for where in (real, ~real):
            after = tape.run([value], refilled(subject, padding.stream, where), wide=True)[value]
            canonical = spot.read(differs(before, after).double())
            rows.append((canonical != 0).any(-1).any(1))
    except UNREADABLE:
        return None
    if bool((rows[0] & rows[1]).any()) or tuple(rows[0].shape) != (seen.call.batch, seen.call.keys):
        return None
    return Sides(rows[0], rows[1])
