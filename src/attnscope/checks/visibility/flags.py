"""Who left out the argument by which a function would have masked the future."""

from __future__ import annotations

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.subject.names import is_causal_name
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_flag"]


def line_of_flag(subject: Subject, operation: Operation) -> Source | None:
    """Return the line that calls the outermost function whose causal argument is False.

    None: no function around the operation takes one, or one of them was told True.
    """
    frames, found = frames_at(subject, operation), None
    for at, frame in enumerate(frames[:-1]):
        flags = [
            value
            for name, value in frame.arguments.items()
            if is_causal_name(name) and isinstance(value, bool)
        ]
        if any(flags):
            return None
        caller = next((each for each in frames[at + 1 :] if each.own), None)
        if flags and caller is not None:
            found = caller.source()
        elif found is not None:
            break
    return found
