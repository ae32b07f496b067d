"""The line that makes a mask of places which leaves a query nothing to see, in every sample."""

from __future__ import annotations

import torch

from attnscope.calls.source import Source
from attnscope.checks.caller import users_line
from attnscope.checks.masking.hides import Hide
from attnscope.checks.masking.seen import Seen
from attnscope.checks.visibility.lacking import made_before
from attnscope.checks.visibility.making import Pairs, made_wrongly
from attnscope.checks.visibility.tokens import made_of_inputs

__all__ = ["line_of_emptying"]


def line_of_emptying(seen: Seen, hide: Hide) -> Source | None:
    """Return where a mask is made that hides from a query itself, as it hides what is later.

    None: no operation does that, or it is made of the contents of inputs.
    """
    subject, call, course = seen.subject, seen.call, seen.course
    if course is None or call.queries != call.keys:
        return None
    hidden = seen.part(hide)
    rows = hidden.all(-1, keepdim=True)
    itself = torch.eye(call.keys, dtype=torch.bool)
    ways = [Pairs(itself & rows, hidden & ~itself, ~hidden, ordered=True)]
    of_inputs = made_of_inputs(subject, subject.base)
    made = made_wrongly(course, ways, of_inputs)
    if made is None or made.source is None or not of_inputs.isdisjoint(made.values()):
        return None
    line = made_before(subject, course, made, ways, of_inputs) or made.source
    return users_line(subject, call.module, line)
