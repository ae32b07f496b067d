"""The author's line that raised, with the tensors and sizes that its names stood for."""

from __future__ import annotations

import ast
import itertools
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from torch import Tensor, nn

from attnscope.calls.source import Source
from attnscope.checks.lines import is_the_users

__all__ = ["Raised", "raised_at"]

_ABOUT_ATTENTION = re.compile(
    r"att(n|en|end)|quer|\bkeys?\b|\bvalues?\b|heads?|\bq\b|\bk\b|qkv|scores?|softmax|mask|mha|"
    r"rotary|rope|to_[qkv]|[qkv]_proj|proj_[qkv]|\bw[qkv]\b|context",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Raised:
    """Where it was raised.

    code: the statement; seen: what its names stood for ("query (2, 6, 15, 8)"), in order.
    about_attention: whether names on the way there speak of attention. owner: the module whose code
    it is, where the statement reads an argument that its function was handed.
    """

    source: Source
    code: str
    seen: tuple[tuple[str, str], ...]
    about_attention: bool
    owner: nn.Module | None = None


def raised_at(error: BaseException) -> Raised | None:
    """Return the innermost place of the author's code; None: there is none."""
    frames = [frame for frame in _frames(error.__traceback__) if _is_own(frame[0])]
    if not frames:
        return None
    frame, line = frames[-1]
    file = frame.f_code.co_filename
    text = linecache.getline(file, line).strip()
    node = _statement("".join(linecache.getlines(file)), line)
    code = ast.unparse(node) if node is not None else text
    source = Source(file, line, frame.f_code.co_qualname, text)
    seen = tuple(_seen(node, frame.f_locals)) if node is not None else ()
    owner = _owner(node, frame) if node is not None else None
    return Raised(source, code, seen, any(_speaks(f, n) for f, n in frames[-2:]), owner)


def _owner(node: ast.stmt, frame: FrameType) -> nn.Module | None:
    """Return the module whose function reads an argument of its own in a statement."""
    owner, code = frame.f_locals.get("self"), frame.f_code
    arguments = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self"}
    read = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return owner if isinstance(owner, nn.Module) and not read.isdisjoint(arguments) else None


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _is_own(frame: FrameType) -> bool:
    return is_the_users(frame.f_code.co_filename)


def _speaks(frame: FrameType, line: int) -> bool:
    owner = frame.f_locals.get("self")
    words = (
        frame.f_code.co_qualname,
        type(owner).__name__ if owner is not None else "",
        linecache.getline(frame.f_code.co_filename, line),
        " ".join(frame.f_locals),
    )
    return any(_ABOUT_ATTENTION.search(word) for word in words)


def _statement(text: str, line: int) -> ast.stmt | None:
    """Return the innermost simple statement on a line."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    simple = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Assert, ast.Raise)
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, simple) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(found, key=lambda node: node.lineno, default=None)


def _seen(node: ast.stmt, names: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Iterate over the names of a statement that stand for tensors, layers or numbers."""
    known: set[str] = set()
    read: list[ast.AST] = [node]
    if isinstance(node, ast.Assign):  # what is assigned to isn't there yet, unless it is indexed
        read = [node.value, *(each for each in node.targets if isinstance(each, ast.Subscript))]
    for part in itertools.chain.from_iterable(map(ast.walk, read)):
        if not isinstance(part, ast.Name | ast.Attribute):
            continue
        name = ast.unparse(part)
        value = _value(part, names)
        text = _text(value)
        if text and name not in known:
            known.add(name)
            yield name, text


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """Return what a name or a dotted name stands for; nothing of the author's is called."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = _value(node.value, names)
    if isinstance(owner, nn.Module):
        inside = (owner._parameters, owner._buffers, owner._modules, vars(owner))  # noqa: SLF001  getattr runs code
        return next((each[node.attr] for each in inside if node.attr in each), None)
    return getattr(owner, "__dict__", {}).get(node.attr)


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        return f"{tuple(value.shape)}" + ("" if kind == "float32" else f" {kind}")
    if isinstance(value, nn.Linear):
        return f"Linear({value.in_features} → {value.out_features})"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return ""
