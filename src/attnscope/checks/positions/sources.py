"""The tokens that q and k are made of: through norms and narrow projections, token by token."""

from __future__ import annotations

from collections.abc import Iterator

from attnscope.calls.program import Operation
from attnscope.checks.residual.graph import contents
from attnscope.checks.residual.stream import norm_input, stripped
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located

__all__ = ["have_one_source"]

_DEEPEST = 24
"""Operations that are followed back, layout and scaling left out."""

_PROJECTS = frozenset("linear matmul".split())
_CUTS = frozenset("split chunk getitem narrow tensor_split".split())


def have_one_source(subject: Subject, located: Located) -> bool:
    """Return whether q and k are made of the same tokens, all of them, each at its own place."""
    call, received = located.call, located.received
    if call.queries != call.keys or call.queries < 2:
        return False
    of_q, of_k = (set(_sources(subject, received[side])) for side in ("q", "k"))
    return not of_q.isdisjoint(of_k)


def _sources(subject: Subject, value: int) -> Iterator[int]:
    """Iterate over what a value is made of, row by row, from itself backwards."""
    tape, weights, moving = subject.base.tape, subject.base.weights, contents(subject)
    for _ in range(_DEEPEST):
        value = stripped(tape, value, weights)
        yield value
        normed = norm_input(tape, value, weights)
        if normed is not None:
            value = normed
            continue
        operation = tape.maker.get(value)
        before = [v for v in operation.values() if v in moving] if operation else []
        if operation is None or len(before) != 1 or not _is_by_token(subject, operation, before[0]):
            return
        value = before[0]


def _is_by_token(subject: Subject, operation: Operation, value: int) -> bool:
    """Return whether an operation makes each row of what it is given of that row alone."""
    tensors = subject.base.tape.tensors
    old, new = tensors[value].shape, tensors[operation.defines[0]].shape
    if old[:-1] != new[:-1]:
        return False
    if operation.name in _CUTS:
        return old[-1] != new[-1]
    return operation.name in _PROJECTS
