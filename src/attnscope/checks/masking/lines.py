"""Which line a masking fault stands on: where a mask is made, left out, or meets the scores."""

from __future__ import annotations

from collections.abc import Iterable

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.masking.frames import Frame, frames_at, line_of_missing, line_of_wrong
from attnscope.checks.masking.hides import Hide
from attnscope.checks.masking.seen import Seen

__all__ = ["behind", "depends", "frames_of", "line_of_absent", "line_of_making", "line_of_softmax"]


def behind(seen: Seen, hide: Hide) -> tuple[Operation, ...]:
    """Return the operations that make what joins the scores, in order."""
    if seen.course is None or hide.value is None:
        return ()
    return seen.course.tape.program.needed((hide.value,), {})


def depends(seen: Seen, hide: Hide, inputs: Iterable[int | None]) -> bool:
    """Return whether what joins the scores was made from some inputs."""
    reached = {value for value in inputs if value is not None}
    for operation in behind(seen, hide):
        if not _alike(operation) and not reached.isdisjoint(operation.values()):
            reached.update(operation.defines)
    return hide.value in reached


def _alike(operation: Operation) -> bool:
    """Return whether an operation takes nothing but a shape."""
    return operation.name.endswith("_like") or operation.name.startswith("new_")


def line_of_making(seen: Seen, hide: Hide, inputs: Iterable[int | None]) -> Source:
    """Return the line where inputs become a mask: what first makes yes and no of them."""
    reached = {value for value in inputs if value is not None}
    for operation in behind(seen, hide):
        if _alike(operation) or reached.isdisjoint(operation.values()):
            continue
        reached.update(operation.defines)
        tensor = seen.subject.base.tape.tensors[operation.defines[0]].detach()
        two = tensor.numel() > 1 and bool(((tensor == 0) | (tensor == 1)).all())
        if two and operation.source is not None:
            return operation.source
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


def line_of_absent(seen: Seen) -> tuple[Source, str | None]:
    """Return the line of a mask that never came: who left it out (and its name), or the softmax."""
    line = line_of_softmax(seen)
    frames = frames_of(seen)
    missing = line_of_missing(frames)
    if missing is not None:
        return missing
    wrong = line_of_wrong(frames) if seen.hides else None
    return (wrong or line), None
