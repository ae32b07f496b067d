"""A mask of keys that was made of another sequence than the one it is used for."""

from __future__ import annotations

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.lines import is_installed
from attnscope.checks.masking.lines import behind
from attnscope.checks.masking.seen import Seen, seen_by
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.layers import layers_of
from attnscope.checks.visibility.tokens import value_in

__all__ = ["line_of_foreign"]


def line_of_foreign(seen: Seen) -> Source | None:
    """Return the line that makes the mask of a call of another sequence, for this use alone.

    None: it is an input, tells queries apart, or is right for another call, whose keys are the
    sequence that it is made of; then whoever hands it on is at fault.
    """
    subject = seen.subject
    for hide in seen.hides:
        made = _making(subject, behind(seen, hide)) if _is_of_keys(seen.part(hide)) else None
        if made is None or made[0].source is None or is_installed(made[0].source.file):
            continue
        operation, names = made
        if not _serves(subject, operation, names):
            return operation.source
    return None


def _is_of_keys(hidden: Tensor) -> bool:
    """Return whether a mask hides the same keys from every query, and not in every sample."""
    rows = hidden[:, :, :1]
    return bool((hidden == rows).all()) and bool((rows != rows[:1]).any())


def _making(
    subject: Subject, operations: tuple[Operation, ...]
) -> tuple[Operation, frozenset[str]] | None:
    """Return what first makes a mask of inputs, and the names of those."""
    known: dict[int, frozenset[str]] = {}
    for name, _ in subject.given.tensors():
        value = value_in(subject.base, subject.given, name)
        if value is not None:
            known[value] = frozenset({name})
    for operation in operations:
        names = frozenset[str]().union(*(known.get(v, frozenset()) for v in operation.values()))
        if not names:
            continue
        known.update(dict.fromkeys(operation.defines, names))
        made = subject.base.tape.tensors[operation.defines[0]].detach()
        if made.numel() > 1 and bool(((made == 0) | (made == 1)).all()):
            return operation, names
    return None


def _serves(subject: Subject, made: Operation, names: frozenset[str]) -> bool:
    """Return whether some call reads just the sequence that a mask was made of, with that mask."""
    for layer in layers_of(subject):
        seen = seen_by(subject, layer.call)
        if frozenset() < layer.reads <= names and any(
            made in behind(seen, hide) for hide in seen.hides
        ):
            return True
    return False
