"""Who left out the argument by which a function would have masked the future."""

from __future__ import annotations

import ast

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.lines import at_line
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.statements import nodes_of
from attnscope.checks.subject.names import is_causal_name, is_mask
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_flag", "line_of_keyword"]


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


def line_of_keyword(line: Source) -> Source:
    """Return the line of the argument that should mask the future, in a call of several lines.

    That is one named after causality, else a mask that is given as None; without any it is `line`
    itself.
    """
    keywords = [
        keyword
        for node in nodes_of(line.file)
        if isinstance(node, ast.Call) and node.lineno == line.line
        for keyword in node.keywords
        if keyword.arg is not None and _would_mask(keyword.arg, keyword.value)
    ]
    if not keywords:
        return line
    causal = [each for each in keywords if is_causal_name(each.arg or "")]
    return at_line(line, (causal or keywords)[0].value.lineno)


def _would_mask(name: str, value: ast.expr) -> bool:
    nothing = isinstance(value, ast.Constant) and value.value is None
    beside = "padding" in name or "memory" in name or name.startswith("src")
    return is_causal_name(name) or (nothing and is_mask(name) and not beside)
