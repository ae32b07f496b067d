"""Which line a masking fault stands on: where a mask is made, left out, or meets the scores."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.caller import users_line
from attnscope.checks.course import HIDING
from attnscope.checks.masking.biases import DEEP
from attnscope.checks.masking.frames import Frame, frames_at, line_of_missing, line_of_wrong
from attnscope.checks.masking.hides import Hide
from attnscope.checks.masking.modes import line_of_mode
from attnscope.checks.masking.seen import Seen, seen_by
from attnscope.checks.masking.sharing import line_of_user
from attnscope.checks.subject.subject import Subject

__all__ = [
    "behind",
    "depends",
    "frames_of",
    "line_of_absent",
    "line_of_hiding",
    "line_of_making",
    "line_of_softmax",
    "tiling_behind",
]

_TILES = frozenset({"repeat", "tile", "repeat_interleave"})
_SPREADS = frozenset({"expand", "expand_as", "broadcast_to"})
_MERGES = frozenset({"reshape", "view", "flatten"})


def behind(seen: Seen, hide: Hide) -> tuple[Operation, ...]:
    """Return the operations that make what joins the scores, in order."""
    if seen.course is None or hide.value is None:
        return ()
    return seen.course.tape.program.needed((hide.value,), {})


def depends(seen: Seen, hide: Hide, inputs: Iterable[int | None]) -> bool:
    """Return whether what joins the scores was made from some inputs."""
    return hide.value in _reached(behind(seen, hide), inputs)


def _reached(operations: Iterable[Operation], inputs: Iterable[int | None]) -> set[int]:
    """Return the values that are made from some inputs, with themselves."""
    reached = {value for value in inputs if value is not None}
    for operation in operations:
        if not _alike(operation) and not reached.isdisjoint(operation.values()):
            reached.update(operation.defines)
    return reached


def _alike(operation: Operation) -> bool:
    """Return whether an operation takes nothing but a shape."""
    return operation.name.endswith("_like") or operation.name.startswith("new_")


def line_of_making(
    seen: Seen, hide: Hide, inputs: Iterable[int | None], real: Tensor | None = None
) -> Source:
    """Return the line where inputs become a mask: what first makes yes and no of them.

    real: what is no fault yet: the tokens that are real, or the others, (batch, length).
    """
    made = _making(seen, behind(seen, hide), inputs, real)
    return users_line(seen.subject, seen.call.module, made or _applied(seen, hide))


def _making(
    seen: Seen,
    operations: Iterable[Operation],
    inputs: Iterable[int | None],
    real: Tensor | None = None,
) -> Source | None:
    reached = {value for value in inputs if value is not None}
    for operation in operations:
        if _alike(operation) or reached.isdisjoint(operation.values()):
            continue
        reached.update(operation.defines)
        tensor = seen.subject.base.tape.tensors[operation.defines[0]].detach()
        two = tensor.numel() > 1 and bool(((tensor == 0) | (tensor == 1)).all())
        sides = (tensor != 0, tensor == 0)
        right = real is not None and any(torch.equal(side, real) for side in sides)
        if two and not right and operation.source is not None:
            return _of_lengths(seen, operation, reached, real) or operation.source
    return None


def _of_lengths(
    seen: Seen, compared: Operation, reached: set[int], real: Tensor | None
) -> Source | None:
    """Return where the lengths that positions are compared with were made, if they are wrong."""
    tape = seen.subject.base.tape
    for value in compared.values() if real is not None else ():
        maker = tape.maker.get(value)
        while maker is not None and maker.name in LAYOUT | {"long", "int"}:
            maker = tape.maker.get(next(maker.values(), -1))
        if maker is None or real is None or reached.isdisjoint(maker.defines):
            continue
        lengths = tape.tensors[maker.defines[0]].detach().flatten()
        if lengths.numel() == len(real) and bool((lengths != real.sum(1).to(lengths)).any()):
            return maker.source
    return None


def line_of_hiding(seen: Seen, hide: Hide | None, *, rows: bool = False) -> Source:
    """Return the line where an added mask gets its low numbers, or where a mask is applied.

    rows: where it gets rows of nothing but low numbers. Inside a library it is the line of the
    user's own that calls it.
    """
    if hide is None:
        return users_line(seen.subject, seen.call.module, line_of_softmax(seen))
    line = _applied(seen, hide)
    tensors = seen.subject.base.tape.tensors
    final = tensors[hide.value].detach() <= DEEP if hide.value is not None else None
    for operation in behind(seen, hide) if hide.kind == "bias" else ():
        tensor = tensors[operation.defines[0]].detach()
        low = tensor <= DEEP if tensor.is_floating_point() and tensor.dim() else None
        if low is None or final is None or low.numel() < 2:
            continue
        if bool(low.all(-1).any()) if rows else bool(low.any()) and _is_spread(low, final):
            line = operation.source or line
            break
    return users_line(seen.subject, seen.call.module, line)


def _is_spread(low: Tensor, final: Tensor) -> bool:
    """Return whether a mask in the making says already what it says in the end."""
    if low.squeeze().shape == final.squeeze().shape:
        return torch.equal(low.squeeze(), final.squeeze())
    try:
        return torch.equal(low.expand(final.shape), final)
    except RuntimeError:
        return False


def tiling_behind(seen: Seen, operation: Operation) -> Source | None:
    """Return the last line that tiles what joins the scores in an operation."""
    course = seen.course
    joined = course.joined(operation) if course is not None else []
    made = seen.subject.base.tape.program.needed(tuple(joined), {})
    tiles = [op for op in made if op.name in _TILES]
    spread = [op for op in made if op.name in _SPREADS and _is_merged(seen, op)]
    return next((op.source for op in reversed(tiles or spread) if op.source is not None), None)


def _is_merged(seen: Seen, operation: Operation) -> bool:
    """Return whether what an operation spreads over more entries then becomes fewer axes."""
    tape = seen.subject.base.tape
    axes = tape.tensors[operation.defines[0]].dim()
    users = tape.users.get(operation.defines[0], [])
    return any(tape.tensors[each.defines[0]].dim() < axes for each in users if each.name in _MERGES)


def _applied(seen: Seen, hide: Hide) -> Source:
    return hide.operation.source or seen.call.source


def line_of_softmax(seen: Seen) -> Source:
    """Return the line of the softmax, or of the kernel's call."""
    course = seen.course
    return course.line(course.softmax, course.product) if course is not None else seen.call.source


def frames_of(seen: Seen) -> tuple[Frame, ...]:
    """Return the functions around the softmax of a call, innermost first."""
    course = seen.course
    if course is None:
        return ()
    known = (
        op for op in (course.softmax, course.product) if op is not None and op.source is not None
    )
    operation = next(known, None)
    return frames_at(seen.subject, operation) if operation is not None else ()


def line_of_absent(seen: Seen, inputs: Iterable[int | None] = ()) -> tuple[Source, str | None]:
    """Return the line of a mask that never came, and its name where an argument was left out.

    That is where scores are hidden in a copy that nobody reads; the condition that gives one in
    training alone; who left it out; where it is made of the inputs and hides nothing; who calls one
    layer without it, and others with it; a mask that lacks it; or the softmax.
    """
    dropped = _of_dropped(seen)
    if dropped is not None:
        return dropped, None
    frames = frames_of(seen)
    chosen = line_of_mode(frames)
    if chosen is not None:
        return chosen, None
    missing = line_of_missing(frames)
    if missing is not None:
        return missing
    inputs = list(inputs)
    wrong = line_of_wrong(frames) if seen.hides else None
    found = wrong or _of_nothing(seen, inputs) or _of_owner(seen, inputs)
    if found is None and seen.hides:
        found = _applied(seen, seen.hides[-1])
    return users_line(seen.subject, seen.call.module, found or line_of_softmax(seen)), None


def _of_dropped(seen: Seen) -> Source | None:
    """Return the line that hides scores and throws the result away, as masked_fill without "_"."""
    course = seen.course
    scores = {v for op in course.main for v in op.defines} if course is not None else set()
    tape = seen.subject.base.tape
    for operation in tape.operations:
        copies = operation.name in HIDING and operation.target is None
        if not copies or scores.isdisjoint(operation.values()):
            continue
        made = operation.defines[0]
        hides = bool((tape.tensors[made].detach() <= DEEP).any())
        if hides and made not in scores and not tape.users.get(made):
            return operation.source
    return None


def _of_nothing(seen: Seen, inputs: list[int | None]) -> Source | None:
    """Return where a mask is made that joins the scores and is the same all over."""
    course = seen.course
    for operation in course.hiding if course is not None else ():
        for value in course.joined(operation) if course is not None else ():
            tensor = seen.subject.base.tape.tensors[value].detach()
            if tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
                made = seen.subject.base.tape.program.needed((value,), {})
                found = _making(seen, made, inputs)
                if found is not None and value in _reached(made, inputs):
                    return found
    return None


def _of_owner(seen: Seen, inputs: list[int | None]) -> Source | None:
    """Return who uses this layer, where others of its kind get a mask of the inputs."""
    subject, call = seen.subject, seen.call
    kind = _kind(subject, call.module)
    right = [
        (other.call.module, other.course.softmax if other.course is not None else None)
        for other in (seen_by(subject, each) for each in subject.calls)
        if (other.call.queries, other.call.keys) == (call.queries, call.keys)
        and _kind(subject, other.call.module) is kind
        and any(depends(other, hide, inputs) for hide in other.hides)
    ]
    operation = seen.course.softmax if seen.course is not None else None
    return line_of_user(subject, call.module, operation, right) if right else None


def _kind(subject: Subject, path: str) -> type | None:
    module = subject.module(path)
    return type(module) if module is not None else None
