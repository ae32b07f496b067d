"""The line at which an idle parameter would be used, or at which what is made of it gets lost."""

from __future__ import annotations

import ast
import re

from torch import nn

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import Course, course_of
from attnscope.checks.definitions import defined, put_in_later, returned
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.residual.graph import free_values, reached
from attnscope.checks.statements import class_of, first_of
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_idle"]

_IN_SOFTMAX = re.compile(r"sink|bias|rel|alibi|slope|mix|talk|null|decay", re.IGNORECASE)
_IN_PRODUCT = re.compile(
    r"temp|scale|tau|(^|_)(q|k|qk|query|key)_?(norm|ln)|norm_?(q|k)$|(q|k)norm", re.IGNORECASE
)
_AT_THE_END = re.compile(r"^(w?o|out|w_?o|.*_?proj|.*out.*|dense|unify.*|fc_?o)$", re.IGNORECASE)
_OF_INPUTS = re.compile(r"^(to_)?(q|k|v|qkv|kv)_|query|key|value|in_proj", re.IGNORECASE)
_VALUE = re.compile(
    r"(^|[._])(w?v|wvs?|values?|v_proj|to_v|lin_v|v_lin(ear)?|linear_v|w_v|value_layer)([._]|$)",
    re.IGNORECASE,
)
_VALUES = frozenset("v xv V value values value_states value_layer vs v_heads vh Vh".split())


def line_of_idle(subject: Subject, model: nn.Module, owner: str, names: list[str]) -> Source | None:
    """Return where what is made of them gets lost, or where they would be used; else made."""
    attribute = names[0].removeprefix(f"{owner}." if owner else "").split(".")[0]
    later = put_in_later(model, model.get_submodule(owner), attribute)
    if later is not None:
        return later
    values = [v for v, name in subject.base.parameters.items() if name in names]
    if values:
        after = reached(subject.base.tape, values)
        last = [op for op in subject.base.tape.operations if not after.isdisjoint(op.defines)]
        return _line_in_attention(subject, owner, last[-1]) if last else None
    if any(_VALUE.search(name) for name in names) or _numbered(names, owner):
        made = _line_of_value(subject, model, owner)
        if made is not None:
            return made
    return _line_of_use(subject, owner, attribute) or defined(model, names[0])


def _line_of_use(subject: Subject, owner: str, attribute: str) -> Source | None:
    """Return the step of the call that a parameter of that name belongs to; None: no name tells."""
    course = _course(subject, owner)
    if course is None:
        return None
    if _IN_PRODUCT.search(attribute):
        return course.line(course.product)
    if _IN_SOFTMAX.search(attribute):
        return course.line(course.softmax)
    if _AT_THE_END.search(attribute) and not _OF_INPUTS.search(attribute):
        return _end(subject, course, owner)
    return None


def _line_in_attention(subject: Subject, owner: str, operation: Operation) -> Source | None:
    """Return the line of an operation, in the function that attends where a helper made it.

    A bias that is made of parameters alone and goes nowhere is missed where it should join.
    """
    course = _course(subject, owner)
    source = operation.source
    if course is not None and source is not None and _is_bias(subject, course, operation):
        softmax = course.line(course.softmax)
        if softmax.function == source.function:
            return softmax
    if course is None or source is None or source.function == course.call.source.function:
        return source
    for frame in frames_at(subject, operation):
        if frame.own and frame.source().function == course.call.source.function:
            return frame.source()
    return source


def _is_bias(subject: Subject, course: Course, operation: Operation) -> bool:
    """Return whether an operation makes a table of queries and keys, of no input."""
    made, call = operation.defines[0], course.call
    sizes = tuple(subject.base.tape.tensors[made].shape[-2:])
    return sizes == (call.queries, call.keys) and made in free_values(subject)


def _course(subject: Subject, owner: str) -> Course | None:
    prefix = f"{owner}." if owner else ""
    for call in subject.calls:
        if call.module == owner or call.module.startswith(prefix):
            return course_of(subject, call)
    return None


def _end(subject: Subject, course: Course, owner: str) -> Source | None:
    """Return the last return statement of the function that attends."""
    model, source = subject.model, course.call.source
    if model is None or not source.function.endswith(".forward"):
        return None
    found = returned(model.get_submodule(owner))
    return found if found is not None and found.file == source.file else None


def _numbered(names: list[str], owner: str) -> bool:
    """Return whether a projection is one of a numbered list, so that its name says nothing."""
    inner = names[0].removeprefix(f"{owner}." if owner else "")
    return any(part.isdigit() for part in inner.split("."))


def _line_of_value(subject: Subject, model: nn.Module, owner: str) -> Source | None:
    """Return the line of the author's forward that assigns v."""
    written = class_of(type(model.get_submodule(owner)))
    if written is None or not any(call.module.startswith(owner) for call in subject.calls):
        return None
    file, tree = written
    return first_of(((file, node) for node in ast.walk(tree) if _assigns_value(node)), "forward")


def _assigns_value(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(part, ast.Name) and part.id in _VALUES
        for target in node.targets
        for part in (target.elts if isinstance(target, ast.Tuple) else (target,))
    )
