"""Where a mask came short: it loses what it had, was never told, or was wrong as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from attnscope.calls.program import Operation, Value
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.course import Course
from attnscope.checks.masking.written import line_of_asked, line_of_held
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.making import Pairs, is_wrong, over_pairs, tells_apart

__all__ = ["lost_at", "made_before", "whole_of"]

_COMPARES = frozenset("eq ne lt le gt ge".split())

_WORDS = frozenset("eq ne invert bitwise_not logical_not rsub masked_fill zeros_like".split())
"""Operations that say what a mask says in other numbers."""

_TURNS = LAYOUT | _WORDS


def made_before(
    subject: Subject,
    course: Course,
    made: Operation,
    ways: Sequence[Pairs],
    of_inputs: frozenset[int],
) -> Source | None:
    """Return the line that made the larger table that a wrong mask is a part of, if that is wrong.

    It may have been made before the run. A part of it that is taken wrongly (other rows, turned)
    is a fault of the line that takes it.
    """
    found = None
    for value in _behind(course, made):
        tensor = course.tape.tensors[value].detach()
        corner = _corner(tensor, course) if value not in of_inputs else None
        if corner is None:
            continue
        if not any(is_wrong(corner, course, pairs) for pairs in ways):
            break
        maker = course.tape.maker.get(value)
        if maker is None:
            asked = line_of_asked(made.source) if made.source is not None else None
            return line_of_held(subject, value) or asked
        found = maker.source
    return found


def _behind(course: Course, made: Operation) -> Iterator[int]:
    """Iterate over what an operation takes, and what that is made of, while it is one thing."""
    tape = course.tape
    waiting = [v for v in made.values() if made in course.aside or v in course.joined(made)]
    if len(waiting) > 1:
        waiting = [v for v in waiting if v in tape.inputs]
    for _ in range(len(_TURNS)):
        if len(waiting) != 1:
            return
        yield waiting[0]
        maker = tape.maker.get(waiting[0])
        waiting = list(dict.fromkeys(maker.values())) if maker is not None else []


def _corner(tensor: Tensor, course: Course) -> Tensor | None:
    """Return the first queries and keys of a table of pairs."""
    queries, keys = course.call.queries, course.call.keys
    if tensor.dim() < 2 or tensor.shape[-2] < queries or tensor.shape[-1] < keys:
        return None
    return tensor[..., :queries, :keys]


def lost_at(
    course: Course, pairs: Pairs, of_inputs: frozenset[int] = frozenset()
) -> Operation | None:
    """Return the operation that loses a mask: an operand hides the wrong pairs, its result none.

    Or one that compares contents with contents, and finds all of them alike. of_inputs: values that
    depend on contents.
    """
    told = Pairs(pairs.like, pairs.like, pairs.wrong)
    tensors = course.tape.tensors
    for operation in course.aside:
        if not operation.defines or operation.name in LAYOUT:
            continue
        made = over_pairs(tensors[operation.defines[0]], course)
        if made is None or tells_apart(tensors[operation.defines[0]], course, told):
            continue
        operands = [tensors[value] for value in operation.values()]
        if len(operands) > 1 and any(tells_apart(each, course, told) for each in operands):
            return operation
        if _finds_all_alike(operation, course, of_inputs):
            return operation
    return None


def _finds_all_alike(operation: Operation, course: Course, of_inputs: frozenset[int]) -> bool:
    operands, made = list(operation.values()), course.tape.tensors[operation.defines[0]]
    alike = operation.name in _COMPARES and bool((made == made.flatten()[0]).all())
    return alike and len(operands) > 1 and of_inputs.issuperset(operands)


def whole_of(course: Course, *, ordered: bool) -> Operation | None:
    """Return the last operation that makes the mask which is applied.

    Layout and negations in the function that applies it belong to the application. ordered: it
    should know the order of tokens; then a mask of keys alone is right as far as it goes, as a
    flag can do the rest. None: the mask is an input, or none was made that counts.
    """
    applied = course.hiding[-1] if course.hiding else course.softmax
    if applied is None or applied.source is None:
        return None
    axes = 2 if ordered else 1
    sizes = (course.call.queries, course.call.keys)[-axes:]
    for value in _masks(course, applied):
        found = _handed(course, value, applied.source)
        if found is not None and course.tape.tensors[value].shape[-axes:] == sizes:
            return found
    return None


def _masks(course: Course, applied: Operation) -> list[int]:
    """Return the masks among what joins the scores in an operation."""
    if applied.name == "scaled_dot_product_attention":
        named = applied.kwargs.get("attn_mask")
        mask = named if named is not None else (*applied.args, None, None, None, None)[3]
        return [mask.index] if isinstance(mask, Value) else []
    joined = [] if applied is course.softmax else course.joined(applied)
    return [each for each in joined if each not in course.located.weights]


def _handed(course: Course, value: int, applied: Source) -> Operation | None:
    """Return what makes a mask, but for its layout where it is applied or said in other words."""
    tape, beside = course.tape, set[str]()
    maker = tape.maker.get(value)
    for _ in range(16):
        if maker is None or maker.source is None:
            return None
        source, name = maker.source, maker.name.removesuffix("_")
        there = (source.file, source.function) == (applied.file, applied.function)
        if name not in (_TURNS if there or str(source) in beside else _WORDS):
            return maker
        if name in _WORDS:
            beside.add(str(source))
        maker = next((m for v in maker.values() if (m := tape.maker.get(v)) is not None), None)
    return None
