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

from attnscope.checks.subject.names import BATCH_NAMES, LENGTH_NAMES

__all__ = [
    "batch_axis_in_code",
    "batch_axis_in_words",
    "names_of_sizes",
    "own_classes",
    "tree_of",
    "trees",
]

_LIBRARIES = ("torch", "attnscope.nn")


def own_classes(model: Any) -> list[type]:
    """Return the classes of a model's modules that are no library's, outermost first."""
    modules = model.modules() if isinstance(model, nn.Module) else []
    kinds = [type(module) for module in modules]
    own = [kind for kind in kinds if not kind.__module__.startswith(_LIBRARIES)]
    return list(dict.fromkeys(own))


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
    """Return the batch axis that docstrings and comments give an argument: "(batch, time, …)".

    Lines that name the argument are read first, then all; those that disagree say nothing.
    """
    owner = type(run) if isinstance(run, nn.Module) else inspect.unwrap(run)
    if isinstance(owner, type) and owner.__module__.startswith(_LIBRARIES):
        return None
    try:
        lines = inspect.getsource(owner).splitlines()
    except (OSError, TypeError):
        return None
    naming = re.compile(rf"\b{re.escape(name)}\b")
    for chosen in ([line for line in lines if naming.search(line)], lines):
        said = {axis for line in chosen for axis in _axes_in_words(line)}
        if said:
            return said.pop() if len(said) == 1 else None
    return None


def _axes_in_words(line: str) -> Iterator[int]:
    """Iterate over the batch axes of shapes that stand in a comment or a docstring."""
    _, sign, comment = line.partition("#")
    text = comment if sign else line
    if not sign and re.search(r"\w\(|=|return ", text):  # code
        return
    for first, second in _SHAPE.findall(text):
        known = [_WORDS.get(each.lower(), each) for each in (first, second)]
        batch = [at for at, each in enumerate(known) if each in BATCH_NAMES or each == "N"]
        if len(batch) == 1 and (known[batch[0]] != "N" or known[1 - batch[0]] in LENGTH_NAMES):
            yield batch[0]


_WORDS = {"batchsize": "batch", "samples": "batch", "sample": "batch", "examples": "batch"}
"""Further words for the batch, in prose."""

_SHAPE = re.compile(
    r"(?:[(\[]\s*|\b)([A-Za-z_]+)\s*(?:,|\bx\b|×|\*)\s*([A-Za-z_]+)(?=\s*(?:,|\bx\b|×|\*|[)\]]))"
)
"""The first two names of "(batch, length, width)", "[b, n, e]", "batch x time x features"."""


def names_of_sizes(run: Any, name: str) -> list[str]:
    """Return the variables that a forward unpacks the shape of an argument into, in order.

    Read from `batch, length, width = x.shape` and the like, in the outermost forward.
    """
    owner: Any = type(run) if isinstance(run, nn.Module) else inspect.unwrap(run)
    if isinstance(owner, type) and owner.__module__.startswith(_LIBRARIES):
        return []
    tree = tree_of(owner)
    wanted = {"forward", getattr(run, "__name__", "")}
    for function in ast.walk(tree) if tree is not None else ():
        if isinstance(function, ast.FunctionDef) and function.name in wanted:
            for node in ast.walk(function):
                names = _unpacked(node, name)
                if names:
                    return names
    return []


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
