"""The functions around an operation, and their mask arguments: who forgot to hand one on."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.functions import operation_name
from attnscope.checks.lines import is_installed
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject

__all__ = [
    "Frame",
    "frames_at",
    "frames_of_run",
    "line_of_missing",
    "line_of_wrong",
    "unread",
]

_TORCH = str(Path(torch.__file__).resolve().parent)
_PACKAGE = str(Path(__file__).resolve().parents[2])
_MOST = 2000
"""Stacks that are kept of one line."""

_MACHINERY = frozenset(
    {"_call_impl", "_wrapped_call_impl", "inner", "wrapper", "__torch_function__"}
)

_MASKS = re.compile(
    r"mask|padding|^pad$|block|valid|^keep|lengths?$|_lens?$|^lens$|seqlens|adjacency|^adj$|visible"
)
_NOT_MASKS = re.compile(r"head_mask|layer_mask|token_mask|mask_token|max_|return|use_|is_|prune")


@dataclass(frozen=True, slots=True)
class Frame:
    """One function on the stack: its arguments by name, and where it stood when it was left.

    further: what came as **kwargs, by name; gathered: the name of that dict in the function.
    """

    name: str
    file: str
    line: int
    code: Any
    arguments: dict[str, Any]
    further: dict[str, Any] = field(default_factory=dict)
    gathered: str = ""

    @property
    def own(self) -> bool:
        """Whether it is no code of PyTorch."""
        return not self.file.startswith(_TORCH)

    def masks(self) -> Iterator[tuple[str, Any]]:
        """Iterate over the arguments that are named like masks or lengths."""
        for name, value in self.arguments.items():
            if _MASKS.search(name.lower()) and not _NOT_MASKS.search(name.lower()):
                yield name, value

    def source(self) -> Source:
        """Return the line where it stood."""
        import linecache

        text = linecache.getline(self.file, self.line).strip()
        return Source(self.file, self.line, getattr(self.code, "co_qualname", self.name), text)


class _Stacks(TorchFunctionMode):
    """Keeps the stacks of the functions that are called from one line."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source
        self.found: list[tuple[str, tuple[Frame, ...]]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the function; keep its name and the stack where it is called from the line."""
        del types
        if len(self.found) < _MOST and _user_line() == (self.source.file, self.source.line):
            self.found.append((operation_name(func), tuple(_stack())))
        return func(*args, **(kwargs or {}))


def _user_line() -> tuple[str, int] | None:
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  the stack is what is asked for
    while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def _stack() -> Iterator[Frame]:
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  the stack is what is asked for
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file.startswith(_PACKAGE) and not file.startswith(str(Path(_PACKAGE) / "nn")):
            return
        if code.co_name not in _MACHINERY:
            count = code.co_argcount + code.co_kwonlyargcount
            names = code.co_varnames[:count]
            known = {name: frame.f_locals.get(name) for name in names if name != "self"}
            gathered = _name_of_kwargs(code)
            further = frame.f_locals.get(gathered)
            more = dict(further) if isinstance(further, dict) else {}
            yield Frame(code.co_name, file, frame.f_lineno, code, known, more, gathered)
        frame = frame.f_back


def _name_of_kwargs(code: CodeType) -> str:
    """Return what a function calls its **kwargs; "": it takes none."""
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return ""
    named = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[named + bool(code.co_flags & inspect.CO_VARARGS)]


def frames_at(subject: Subject, operation: Operation) -> tuple[Frame, ...]:
    """Return the functions around an operation of the base run, innermost first."""
    source = operation.source
    if source is None:
        return ()

    key = ("frames", source.file, source.line)
    found = subject.once(key, lambda: _stacks_of(source, subject.raw))
    return _frames_of(found, operation, source, subject.base.tape.operations)


def frames_of_run(
    run: Callable[[], Any], operation: Operation, operations: Sequence[Operation]
) -> tuple[Frame, ...]:
    """Return the functions around one of the operations of another run, which is run again."""
    source = operation.source
    if source is None:
        return ()
    return _frames_of(_stacks_of(source, run), operation, source, operations)


def _stacks_of(source: Source, run: Callable[[], Any]) -> list[tuple[str, tuple[Frame, ...]]]:
    stacks = _Stacks(source)
    try:
        with stacks:
            run()
    except Skipped:
        return []
    return stacks.found


def _frames_of(
    found: list[tuple[str, tuple[Frame, ...]]],
    operation: Operation,
    source: Source,
    operations: Sequence[Operation],
) -> tuple[Frame, ...]:
    alike = [
        op
        for op in operations
        if op.name == operation.name
        and op.source is not None
        and (op.source.file, op.source.line) == (source.file, source.line)
    ]
    at = next(n for n, op in enumerate(alike) if op is operation)
    same = [frames for name, frames in found if name == operation.name]
    if len(same) == len(alike):
        return same[at]
    return found[min(at * len(found) // len(alike), len(found) - 1)][1] if found else ()


def line_of_missing(frames: tuple[Frame, ...]) -> tuple[Source, str] | None:
    """Return where a mask argument was left out, and its name.

    That is the line that calls the outermost function whose mask arguments are all None; the
    model's own forward is called by its user, and not looked at.
    """
    for at in range(len(frames) - 2, -1, -1):
        masks = list(frames[at].masks())
        if masks and all(value is None for _, value in masks):
            caller = _caller(frames[at + 1 :])
            return (caller.source(), masks[0][0]) if caller is not None else None
        if any(isinstance(value, Tensor) for _, value in masks) and at == 0:
            return None
    return None


def line_of_wrong(frames: tuple[Frame, ...]) -> Source | None:
    """Return the line that handed a mask to the innermost function that takes one and reads it."""
    for at, frame in enumerate(frames[:-1]):
        given = [name for name, value in frame.masks() if isinstance(value, Tensor)]
        if given and not set(given) <= set(unread(frame)):
            caller = _caller(frames[at + 1 :])
            return caller.source() if caller is not None else None
    return None


def _caller(frames: tuple[Frame, ...]) -> Frame | None:
    """Return the nearest function that is no library's, or else no PyTorch's."""
    own = [frame for frame in frames if frame.own]
    users = [frame for frame in own if not is_installed(frame.file)]
    return next(iter([*users, *own]), None)


def unread(frame: Frame) -> tuple[str, ...]:
    """Return the arguments that a function never reads, by its own code."""
    from attnscope.checks.subject.code import tree_of

    tree = tree_of(frame.code)
    if tree is None:
        return ()
    read = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load | ast.Del)
    }
    if read & {"locals", "vars", "eval", "exec"}:
        return ()
    names = (*frame.arguments, *((frame.gathered,) if frame.gathered else ()))
    return tuple(name for name in names if name not in read)
