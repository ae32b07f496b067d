"""Tables of positions of which one row is used for all tokens, or that lie on another axis."""

from __future__ import annotations

from torch import Tensor

from attnscope.checks.positions.added import Added
from attnscope.checks.positions.constants import is_positional, varies
from attnscope.checks.positions.sinusoids import reads_as_sinusoid
from attnscope.checks.probes.alike_tokens import alike_tokens
from attnscope.checks.residual.graph import behind
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject

__all__ = ["is_single_row", "is_turned_over"]

_PICKS = frozenset("getitem select index_select embedding narrow".split())
_MOVES = frozenset("transpose permute movedim mT T t".split())


def is_single_row(subject: Subject, each: Added) -> bool:
    """Return whether one row of a table is added to all tokens, and nothing tells them apart."""
    if each.axes or each.tokens is None or each.shape[each.tokens] < 2:
        return False
    found = _table_behind(subject, each)
    if found is None:
        return False
    name, table = found
    rows = table.detach().reshape(-1, table.shape[-1])
    if len(rows) < each.shape[each.tokens] or not varies(rows, 0):
        return False
    if not (is_positional(name) or reads_as_sinusoid(rows)):
        return False
    try:
        return alike_tokens(subject).blind
    except Skipped:
        return False


def _table_behind(subject: Subject, each: Added) -> tuple[str, Tensor] | None:
    """Return the name and the whole table that a row was picked from."""
    tape, names = subject.base.tape, subject.base.parameters
    for operation in behind(tape, [each.value]):
        if operation.name not in _PICKS:
            continue
        for value in operation.values():
            tensor = tape.tensors[value]
            if value in names and tensor.dim() >= 2 and tensor.shape[-1] == each.shape[-1]:
                return names[value], tensor
    return None


def is_turned_over(
    subject: Subject, each: Added, everything: list[Added]
) -> tuple[int, int] | None:
    """Return (axis that the table was made for, axis that it is added along), where they differ.

    Only where another table lies on that second axis already, and none on the first.
    """
    if len(each.axes) != 1 or len(each.shape) < 4:
        return None
    tape, along = subject.base.tape, each.axes[0]
    way = behind(tape, [each.value])
    table = next(
        (tape.tensors[v] for op in way for v in op.values() if v in subject.base.parameters), None
    )
    if table is None or table.dim() != len(each.shape) or not any(op.name in _MOVES for op in way):
        return None
    own = [axis for axis in range(table.dim() - 1) if varies(table, axis)]
    if len(own) != 1 or own[0] == along or each.shape[own[0]] < 2:
        return None
    others = [other for other in everything if other is not each and other.shape == each.shape]
    if any(own[0] in other.axes for other in others) or not any(
        along in other.axes for other in others
    ):
        return None
    return own[0], along
