"""Where the author's own code defines a parameter or a part of a model, and reads it.

What happens before the run, in a constructor, leaves no operation behind that has a line. The code
that did it is read instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torch import nn

from attnscope.calls.source import Source
from attnscope.checks.statements import (
    Place,
    calls,
    class_of,
    file_of,
    first_of,
    first_where,
    last_of,
    mentions,
    nodes_of,
    statements,
)
from attnscope.checks.subject.libraries import is_of_framework

__all__ = ["built", "defined", "is_inherited", "owner_of", "put_in_later", "read_at", "returned"]


def owner_of(model: nn.Module, path: str) -> nn.Module | None:
    """Return the module that holds a parameter."""
    try:
        return model.get_submodule(path.rpartition(".")[0])
    except AttributeError:
        return None


def defined(model: nn.Module, path: str) -> Source | None:
    """Return the line that makes a parameter, or the module that holds it, an attribute."""
    for owner, name in _owners(model, path):
        if is_of_framework(owner):
            continue
        for kind in type(owner).__mro__:
            place = _assigned(kind, name)
            if place is not None:
                return _by_key(model, path) or first_of([place], "__init__")
    return None


def _by_key(model: nn.Module, path: str) -> Source | None:
    """Return the statement that puts a parameter into a dict of parameters, by its key."""
    key = path.rpartition(".")[2]
    if not isinstance(owner_of(model, path), nn.ParameterDict):
        return None
    return first_of(
        (
            (file, node)
            for file, node in statements(model)
            for each in ast.walk(node)
            if isinstance(each, ast.Dict)
            and any(isinstance(k, ast.Constant) and k.value == key for k in each.keys)
        ),
        "__init__",
    )


def returned(module: nn.Module) -> Source | None:
    """Return the last return statement of a module's own forward."""
    return last_of(
        (
            (file, node)
            for file, method in _methods(module)
            if method.name == "forward"
            for node in ast.walk(method)
            if isinstance(node, ast.Return)
        ),
        "forward",
    )


def _methods(module: nn.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Iterate over the methods that a module's own class defines."""
    found = class_of(type(module))
    for node in found[1].body if found is not None else ():
        if found is not None and isinstance(node, ast.FunctionDef):
            yield found[0], node


def read_at(module: nn.Module, name: str) -> Source | None:
    """Return the first statement of a class that reads an attribute, its constructor left out.

    A condition is no statement: it only decides which ones run.
    """
    return first_of(
        (
            (file, node)
            for file, method in _methods(module)
            if method.name != "__init__"
            for node in ast.walk(method)
            if isinstance(node, ast.stmt) and not hasattr(node, "body") and mentions(node, name)
        ),
        "forward",
    )


def is_inherited(owner: nn.Module, name: str) -> bool:
    """Return whether a base class makes an attribute, and the owner's own class doesn't."""
    kinds = type(owner).__mro__
    return _assigned(kinds[0], name) is None and any(_assigned(k, name) for k in kinds[1:])


def built(model: nn.Module, part: nn.Module) -> Source | None:
    """Return the first line of a model's own code that makes a module of the class of `part`."""
    made = (
        (file, each)
        for file, node in statements(model)
        for each in calls(node, {type(part).__name__})
    )
    return first_of(made, "__init__")


def put_in_later(model: nn.Module, owner: nn.Module, name: str) -> Source | None:
    """Return the line that puts a part of another class in the place of the one that was built."""
    part = getattr(owner, name, None)
    kind = type(part).__name__
    place = next((p for k in type(owner).__mro__ if (p := _assigned(k, name)) is not None), None)
    if not isinstance(part, nn.Module) or is_of_framework(part):
        return None
    if place is None or mentions(place[1], kind):
        return None
    return first_where(model, lambda node: mentions(node, "setattr") and mentions(node, kind))


def _owners(model: nn.Module, path: str) -> Iterator[tuple[nn.Module, str]]:
    """Iterate over (module, attribute) from the parameter itself outwards."""
    parts = path.split(".")
    for size in reversed(range(len(parts))):
        try:
            yield model.get_submodule(".".join(parts[:size])), parts[size]
        except AttributeError:
            continue


def _assigned(kind: type, name: str) -> Place | None:
    if is_of_framework(kind):
        return None
    file = file_of(kind)
    for node in nodes_of(file):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            found = [each for each in ast.walk(node) if _assigns(each, name)]
            if found and file is not None:
                return file, min(found, key=lambda each: getattr(each, "lineno", 0))
    return None


def _assigns(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        register = getattr(call.func, "attr", "").startswith(("register_", "add_module"))
        first = call.args[0] if call.args else None
        return register and isinstance(first, ast.Constant) and first.value == name
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets: list[ast.expr] = [node.target]
    elif isinstance(node, ast.Assign):
        targets = node.targets
    else:
        return False
    return any(
        isinstance(each, ast.Attribute)
        and each.attr == name
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
        for target in targets
        for each in ast.walk(target)
    )
