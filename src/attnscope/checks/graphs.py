"""The author's line behind a line of the code that torch.fx or torch.export wrote."""

from __future__ import annotations

import linecache
import re

from torch.fx import GraphModule

from attnscope.calls.source import Source
from attnscope.checks.lines import is_installed, is_the_users
from attnscope.checks.subject.subject import Subject

__all__ = ["traced_line"]

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_TRACED = re.compile(r"^<eval_with_key>\S* from (.+):(\d+) in (\S+)$")
"""What torch.fx calls its code: where the forward begins that it followed."""


def traced_line(subject: Subject, line: Source) -> Source:
    """Return the line whose operation a line of a graph's code repeats; the line itself, else.

    An exported graph knows the line of each operation, one that was traced its forward alone.
    """
    if not line.file.startswith("<eval_with_key>"):
        return line
    found = _FRAME.findall(_stack_of(subject, line))
    traced = _TRACED.match(line.file)
    places = [*found[::-1], *([traced.groups()] if traced is not None else [])]
    for file, number, function in places:
        if is_the_users(file) and not is_installed(file):
            at = int(number)
            return Source(file, at, function, linecache.getline(file, at).strip())
    return line


def _stack_of(subject: Subject, line: Source) -> str:
    """Return the stack, outermost first, at which the operation of a line was seen; "": unknown."""
    for module in subject.model.modules() if subject.model is not None else ():
        if isinstance(module, GraphModule) and _file(module) == line.file:
            start = getattr(module, "_prologue_start", 0)
            at = getattr(module, "_lineno_map", {}).get(line.line - start)
            nodes = list(module.graph.nodes)
            return nodes[at].stack_trace or "" if at is not None and at < len(nodes) else ""
    return ""


def _file(module: GraphModule) -> str:
    return type(module).forward.__code__.co_filename
