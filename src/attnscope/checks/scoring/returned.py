"""What a model hands out as attention weights, compared with the weights of its calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.attributes import attribute
from attnscope.checks.course import Course, course_on
from attnscope.checks.definitions import returned
from attnscope.checks.scoring.assigned import line_of_return, renames
from attnscope.checks.scoring.forms import Likeness, likeness
from attnscope.checks.scoring.stretched import another_calls, stretched
from attnscope.checks.subject.libraries import is_of_library
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.side import Side

__all__ = ["Returned", "returned_otherwise"]

_NAMED = re.compile(r"attn|attention|align|weights$|maps?$")
_OTHERWISE = re.compile(
    r"hidden|state|output$|mask|embed|logits|loss|cache|past|pre_?softmax|similarit|bias|"
    r"(^|_)(qk|kv)(_|$)|values?$|keys?$|quer(y|ies)$"
)
"""Names of what is no weights, wherever it stands."""

_ASKED = re.compile(
    r"^(need_weights|output_attentions|return_(attn|attention|weights|attentions)"
    r"(?!.*(loss|logit|mask|bias)))"
)
_PER_HEAD = re.compile(
    r"(every|each|per|all)\s+(the\s+)?(attention\s+)?heads?|batch,\s*\w*heads|map per head",
    re.IGNORECASE,
)
_JOINS = frozenset("stack cat hstack vstack dstack".split())


@dataclass(frozen=True, slots=True)
class Returned:
    """One output that looks like weights and is something else.

    where: which output; what: what it is; call: whose; certain: an error, not a note.
    error: largest difference from the weights; remains: from what it is said to be.
    """

    where: str
    what: str
    call: Call
    shape: tuple[int, ...]
    error: float
    remains: float
    source: Source
    certain: bool = True
    when: str = ""


def returned_otherwise(subject: Subject) -> Iterator[Returned]:
    """Iterate over the outputs that are given as weights and are something else."""
    if subject.model is not None and is_of_library(subject.model):
        return
    seen: set[str] = set()
    for side, when in _runs(subject):
        for found in _in_run(subject, side, when):
            if found.where not in seen:
                seen.add(found.where)
                yield found


def _runs(subject: Subject) -> Iterator[tuple[Side, str]]:
    yield subject.base, ""
    for parameter in subject.given.parameters:
        name = parameter.name
        if _ASKED.match(name) and subject.given.values.get(name) in {None, False}:
            side = subject.watched(subject.given.with_values(**{name: True}))
            if side.error is None:
                yield side, f" with {name}=True"
    trained = subject.model is not None and subject.model.training
    if trained and list(_candidates(subject.base.output)):
        side = subject.watched(subject.given, train=True)
        if side.error is None:
            yield side, " in train mode"


def _in_run(subject: Subject, side: Side, when: str) -> Iterator[Returned]:
    calls = [call for call in side.trace if not call.recomputed]
    train = when == " in train mode"
    yield from _of_other_calls(subject, side, calls, when)
    for where, tensor, named in _candidates(side.output):
        found = _unlike(tensor, calls, named=named, train=train)
        value = side.tape.value_of(tensor)
        if found is None and value is not None:
            found, value = _of_parts(side, value, calls, train=train)
        if found is None:
            continue
        certain = found.kind != "mean" or _says_per_head(subject)
        yield Returned(
            where,
            found.what,
            found.call,
            tuple(tensor.shape),
            found.error,
            found.remains,
            _line(side, found, value),
            certain,
            when,
        )


def _unlike(tensor: Tensor, calls: list[Call], *, named: bool, train: bool) -> Likeness | None:
    """Return what a tensor is that is no call's weights."""
    found = likeness(tensor, calls, named=named, train=train)
    return found if found is not None else stretched(tensor, calls)


def _of_other_calls(
    subject: Subject, side: Side, calls: list[Call], when: str
) -> Iterator[Returned]:
    """Iterate over maps, one for each layer, of which some are another layer's."""
    groups: dict[str, list[tuple[str, Tensor]]] = {}
    for where, tensor, _ in _candidates(side.output):
        groups.setdefault(where.rpartition("[")[0], []).append((where, tensor))
    for maps in groups.values():
        found = another_calls([tensor for _, tensor in maps], calls)
        if found is None:
            continue
        at, like = found
        where, tensor = maps[at]
        line = returned(subject.model) if subject.model is not None else None
        source = line or like.call.source
        shape = tuple(tensor.shape)
        yield Returned(
            where, like.what, like.call, shape, like.error, like.remains, source, when=when
        )


def _of_parts(
    side: Side, value: int, calls: list[Call], *, train: bool
) -> tuple[Likeness | None, int]:
    """Return what the first part is that is no weights, where an output joins those of layers."""
    tape = side.tape
    for _ in range(len(tape.operations)):
        made = tape.maker.get(value)
        if made is None or made.name not in LAYOUT | _JOINS:
            break
        parts = list(made.values())
        if made.name in LAYOUT and parts:
            value = parts[0]
            continue
        for at, part in enumerate(parts):
            turn = at % max(len(calls), 1)  # the call of the same layer is looked at first
            ordered = [*calls[turn:], *calls[:turn]]
            found = _unlike(tape.tensors[part], ordered, named=False, train=train)
            if found is not None:
                return found, part
        break
    return None, value


def _line(side: Side, found: Likeness, value: int | None) -> Source:
    """Return where a wrong tensor is made, or handed out where it is right for what it is.

    What lays weights out, or computes them once more apart from the call, is at fault itself, and
    so is what takes the name of the weights.
    """
    made = side.source_of(value)
    if made is None:
        return found.call.source
    apart = found.kind == "again" and not _is_of_course(side, found.call, value)
    course = _course(side, found.call)
    weights = course.softmax.source if course is not None and course.softmax is not None else None
    renamed = weights is not None and renames(made, weights)
    itself = apart or renamed or found.kind in {"mixed", "stretched"}
    return made if itself else line_of_return(made)


def _course(side: Side, call: Call) -> Course | None:
    located = next((each for each in side.located if each.call is call), None)
    return course_on(side.tape, located) if located is not None else None


def _is_of_course(side: Side, call: Call, value: int | None) -> bool:
    """Return whether a value is made of the scores of a call, as it computed them."""
    course = _course(side, call)
    known = {v for op in course.main for v in op.defines} if course is not None else set()
    operation = side.tape.maker.get(value) if value is not None else None
    for _ in range(len(side.tape.operations)):
        if operation is None:
            return False
        before = [v for v in operation.values() if v not in side.weights]
        if not known.isdisjoint((*before, *operation.defines)):
            return True
        operation = side.tape.maker.get(before[0]) if before else None
    return False


def _candidates(output: Any) -> Iterator[tuple[str, Tensor, bool]]:
    """Iterate over the tensors of an output that may be weights: (where, tensor, by its name)."""
    for where, value, named in _leaves(output, "", named=False):
        first = where in {"", "[0]"}
        if value.is_floating_point() and (named or (not first and value.dim() >= 2)):
            yield where, value, named


def _leaves(value: Any, where: str, *, named: bool) -> Iterator[tuple[str, Tensor, bool]]:
    """Iterate over the tensors of an output but those whose name says that they are no weights."""
    if isinstance(value, Tensor):
        yield where, value, named
        return
    fields = _fields(value)
    for key, item in fields or ():
        if not _OTHERWISE.search(key.lower()):
            own = named or bool(_NAMED.search(key.lower()))
            yield from _leaves(item, f"{where}.{key}", named=own)
    if fields is None and isinstance(value, (tuple, list)):
        for at, item in enumerate(value):
            yield from _leaves(item, f"{where}[{at}]", named=named)


def _fields(value: Any) -> list[tuple[str, Any]] | None:
    """Return the names and values of a mapping, a named tuple or a dataclass; None: of another."""
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    names = getattr(value, "_fields", None) if isinstance(value, tuple) else None
    names = names or getattr(value, "__dataclass_fields__", None)
    return None if names is None else [(name, attribute(value, name)) for name in names]


def _says_per_head(subject: Subject) -> bool:
    """Return whether the author says, in words, that the maps are of single heads."""
    owners: list[Any] = [subject.run]
    if isinstance(subject.run, nn.Module):
        owners = [type(subject.run), type(subject.run).forward]
    return any(_PER_HEAD.search(inspect.getdoc(owner) or "") for owner in owners)
