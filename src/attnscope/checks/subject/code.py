"""What the author's own code says: names of sizes, calls and attributes in a model's classes."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from torch import nn

from attnscope.checks.attributes import attribute
from attnscope.checks.subject.libraries import is_of_framework
from attnscope.checks.subject.names import BATCH_NAMES, LENGTH_NAMES

__all__ = [
    "batch_axis_in_code",
    "batch_axis_in_words",
    "names_of_sizes",
    "own_classes",
    "tree_of",
    "trees",
]


def own_classes(model: Any) -> list[type]:
    """Return the classes of a model's modules that are no framework's, outermost first."""
    modules = model.modules() if isinstance(model, nn.Module) else []
    return list(dict.fromkeys(type(each) for each in modules if not is_of_framework(each)))


@lru_cache(maxsize=512)
def tree_of(source_of: Callable[..., Any] | type) -> ast.AST | None:
    """Return the syntax tree of a class or function; None where its source can't be had."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(source_of)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None


def trees(run: Any) -> Iterator[ast.AST]:
    """Iterate over the syntax trees of a model's own classes, or of a function."""
    kinds: list[Any] = own_classes(run) if isinstance(run, nn.Module) else [inspect.unwrap(run)]
    for kind in kinds:
        tree = tree_of(kind)
        if tree is not None:
            yield tree


def batch_axis_in_code(run: Any, name: str) -> int | None:
    """Return the batch axis that a forward's own variables name for one of its arguments."""
    return _batch_axis(names_of_sizes(run, name))


def batch_axis_in_words(run: Any, name: str) -> int | None:
    """Return the batch axis that a docstring or comment gives an argument: "x: (batch, time, …)".

    Lines of docstrings and comments that name the argument; a comment behind an assignment speaks
    of what was assigned. Lines that disagree say nothing.
    """
    lines = [line for each in _own_sources(run) for line in _source_of(each).splitlines()]
    said = {axis for line in lines for axis in _axes_in_words(line, name)}
    return said.pop() if len(said) == 1 else None


def _own_sources(run: Any) -> list[Any]:
    """Return the function that is called, and the class it belongs to; none that is torch's."""
    if not isinstance(run, nn.Module):
        return [inspect.unwrap(run)]
    forward = inspect.unwrap(getattr(run.forward, "__func__", run.forward))
    known = [each for each in (forward, type(run)) if hasattr(each, "__module__")]
    return [each for each in known if not is_of_framework(each)]


def _source_of(owner: Any) -> str:
    try:
        return inspect.getsource(owner)
    except (OSError, TypeError):
        return ""


def _axes_in_words(line: str, name: str) -> Iterator[int]:
    """Iterate over the batch axes that a comment or a line of a docstring gives an argument."""
    code, sign, comment = line.partition("#")
    signature = re.search(rf"\bdef |^\s*{re.escape(name)}\s*:", code)
    if not signature and re.search(r"\w\(|=|return ", code):
        return
    text = comment if sign else "" if code.lstrip().startswith("def ") else line
    if not re.search(rf"\b{re.escape(name)}\b", _SHAPE.sub(" ", line)):
        return
    for first, second in _SHAPE.findall(text):
        known = [_WORDS.get(each.lower(), each) for each in (first, second)]
        for at, each in enumerate(known):
            timed = known[1 - at].removesuffix("s") in LENGTH_NAMES or known[1 - at] in LENGTH_NAMES
            loose = each == "N" or (each.lower() in _ROWS and at == 0)
            if (each in BATCH_NAMES and (at == 0 or timed)) or (loose and timed):
                yield at


_WORDS = {
    "batchsize": "batch",
    "samples": "batch",
    "sample": "batch",
    "examples": "batch",
    "sequence": "seq",
}
"""Further words for the batch, in prose."""

_ROWS = frozenset("rows windows groups series blocks chunks".split())
"""Words for the axis in front of the tokens that attend to one another: "(rows, length, d)"."""

_SHAPE = re.compile(
    r"(?:[(\[]\s*|\b)([A-Za-z_]+)\s*(?:,|\bx\b|×|\*)\s*([A-Za-z_]+)(?=\s*(?:,|\bx\b|×|\*|[)\]]))"
)
"""The first two names of "(batch, length, width)", "[b, n, e]", "batch x time x features"."""


def names_of_sizes(run: Any, name: str) -> list[str]:
    """Return the variables that a forward unpacks the shape of an argument into, in order.

    Read from `batch, length, width = x.shape` and the like, in the outermost forward.
    """
    own = _own_sources(run)
    tree = tree_of(own[0]) if own else None
    wanted = {"forward", attribute(run, "__name__", "")}
    for function in ast.walk(tree) if tree is not None else ():
        if isinstance(function, ast.FunctionDef) and function.name in wanted:
            for node in _in_order(function):
                if _turns(node, name):
                    break
                names = _unpacked(node, name)
                if names:
                    return names
    return []


def _in_order(function: ast.FunctionDef) -> list[ast.Assign]:
    """Return the assignments of a function as they stand in its text."""
    found = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    return sorted(found, key=lambda node: node.lineno)


def _turns(node: ast.Assign, name: str) -> bool:
    """Return whether an assignment gives a name its axes in another order."""
    held = any(isinstance(each, ast.Name) and each.id == name for each in node.targets)
    words = {getattr(each, "attr", getattr(each, "id", "")) for each in ast.walk(node.value)}
    return held and not words.isdisjoint(_REORDERS)


_REORDERS = frozenset(
    "transpose permute movedim swapaxes swapdims rearrange mT T t reshape view flatten "
    "unflatten unsqueeze squeeze".split()
)


def _unpacked(node: ast.AST, name: str) -> list[str]:
    """Return the names of `a, b, c = name.shape`."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return []
    target, value = node.targets[0], node.value
    if isinstance(value, ast.Subscript):  # x.shape[:2]
        value = value.value
    called = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    holder = value.func if called and isinstance(value, ast.Call) else value
    if not isinstance(holder, ast.Attribute) or holder.attr not in {"shape", "size"}:
        return []
    if not isinstance(holder.value, ast.Name) or holder.value.id != name:
        return []
    if not isinstance(target, ast.Tuple):
        return []
    return [each.id if isinstance(each, ast.Name) else "" for each in target.elts]


def _batch_axis(names: list[str]) -> int | None:
    """Return which of the first two names is the batch's, where they say so."""
    if len(names) < 2:
        return None
    lowered = [name.lower().strip("_") for name in names]
    batch = [at for at, name in enumerate(lowered[:2]) if name in BATCH_NAMES]
    length = [at for at, name in enumerate(names[:2]) if name in LENGTH_NAMES]
    if len(batch) == 1:
        return batch[0]
    return 1 - length[0] if len(length) == 1 else None
