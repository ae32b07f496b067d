"""Where the author's own code defines a parameter, fills it, loads it, or calls a helper.

What happens before the run, in a constructor, leaves no operation behind that has a line. The code
that did it is read instead.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

from torch import nn

from attnscope.calls.source import Source
from attnscope.checks.subject.code import own_classes

__all__ = [
    "built",
    "calls",
    "calls_of",
    "class_of",
    "defined",
    "enclosing",
    "filled",
    "fills",
    "first_where",
    "is_inherited",
    "keeps",
    "last_where",
    "loaded",
    "mentions",
    "owner_of",
    "put_in_later",
    "read_at",
    "returned",
    "statements",
    "texts",
]

Place: TypeAlias = tuple[str, ast.AST]
"""A file, and a node of its syntax tree."""

_LIBRARIES = ("torch.", "transformers.", "attnscope.")


@lru_cache(maxsize=128)
def _tree_of_file(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


def _file_of(kind: Any) -> str | None:
    try:
        return inspect.getsourcefile(inspect.unwrap(kind))
    except (TypeError, OSError):
        return None


def _files(run: Any) -> list[str]:
    """Return the files that hold a model's own code, libraries left out."""
    kinds = own_classes(run) if isinstance(run, nn.Module) else [run]
    own = [kind for kind in kinds if not (kind.__module__ or "").startswith(_LIBRARIES)]
    return list(dict.fromkeys(file for kind in own if (file := _file_of(kind)) is not None))


def _source(place: Place, function: str = "") -> Source:
    file, node = place
    line = getattr(node, "lineno", 0)
    return Source(file, line, function, linecache.getline(file, line).strip())


def statements(run: Any) -> Iterator[Place]:
    """Iterate over the statements of a model's own code that hold no other statements."""
    for file in _files(run):
        tree = _tree_of_file(file)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.stmt) and not hasattr(node, "body"):
                yield file, node


def texts(run: Any) -> Iterator[str]:
    """Iterate over the texts that stand in a model's own code, those of conditions included."""
    for file in _files(run):
        tree = _tree_of_file(file)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def first_where(run: Any, fits: Callable[[ast.AST], bool]) -> Source | None:
    """Return the first such statement of a model's own code."""
    places = [place for place in statements(run) if fits(place[1])]
    return _source(min(places, key=_order)) if places else None


def last_where(run: Any, fits: Callable[[ast.AST], bool]) -> Source | None:
    """Return the last such statement of a model's own code."""
    places = [place for place in statements(run) if fits(place[1])]
    return _source(max(places, key=_order)) if places else None


def _order(place: Place) -> tuple[str, int]:
    return place[0], getattr(place[1], "lineno", 0)


def mentions(node: ast.AST, *names: str) -> bool:
    """Return whether one of these is called, or read as a name or an attribute, in a statement."""
    return any(getattr(each, "attr", getattr(each, "id", None)) in names for each in ast.walk(node))


def calls(node: ast.AST, names: Collection[str]) -> bool:
    """Return whether a function or method of one of these names is called in a statement."""
    return any(
        isinstance(each, ast.Call)
        and getattr(each.func, "attr", getattr(each.func, "id", "")) in names
        for each in ast.walk(node)
    )


def owner_of(model: nn.Module, path: str) -> nn.Module | None:
    """Return the module that holds a parameter."""
    try:
        return model.get_submodule(path.rpartition(".")[0])
    except AttributeError:
        return None


def class_of(module: nn.Module) -> ast.ClassDef | None:
    """Return the syntax tree of a module's class as it stands in its file."""
    file = _file_of(type(module))
    tree = _tree_of_file(file) if file is not None else None
    wanted = type(module).__name__
    nodes = ast.walk(tree) if tree is not None else iter(())
    return next((n for n in nodes if isinstance(n, ast.ClassDef) and n.name == wanted), None)


def defined(model: nn.Module, path: str) -> Source | None:
    """Return the line that makes a parameter, or the module that holds it, an attribute."""
    for owner, name in _owners(model, path):
        if type(owner).__module__.startswith("torch."):
            continue
        for kind in type(owner).__mro__:
            place = _assigned(kind, name)
            if place is not None:
                return _source(_by_key(model, path) or place, "__init__")
    return None


def _by_key(model: nn.Module, path: str) -> Place | None:
    """Return the statement that puts a parameter into a dict of parameters, by its key."""
    key = path.rpartition(".")[2]
    if not isinstance(owner_of(model, path), nn.ParameterDict):
        return None
    places = [
        place
        for place in statements(model)
        if any(
            isinstance(each, ast.Dict)
            and any(isinstance(k, ast.Constant) and k.value == key for k in each.keys)
            for each in ast.walk(place[1])
        )
    ]
    return min(places, key=_order) if places else None


def returned(module: nn.Module) -> Source | None:
    """Return the last return statement of a module's own forward."""
    tree, file = class_of(module), _file_of(type(module))
    forwards = [
        node
        for node in (tree.body if tree is not None else ())
        if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ]
    ends = [n for node in forwards for n in ast.walk(node) if isinstance(n, ast.Return)]
    if not ends or file is None:
        return None
    return _source((file, max(ends, key=lambda node: node.lineno)), "forward")


def enclosing(file: str, line: int) -> Iterator[ast.AST]:
    """Iterate over the functions and compound statements of a file around a line, inner first."""
    tree = _tree_of_file(file)
    around = [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.stmt)
        and hasattr(node, "body")
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    yield from sorted(around, key=lambda node: -node.lineno)


def keeps(source: Source) -> bool:
    """Return whether the statement of a line puts what it computes into an attribute."""
    tree = _tree_of_file(source.file)
    for node in ast.walk(tree) if tree is not None else ():
        if getattr(node, "lineno", 0) > source.line or getattr(node, "end_lineno", 0) < source.line:
            continue
        if isinstance(node, ast.Assign):
            return any(_is_attribute(target) for target in node.targets)
        if isinstance(node, ast.AugAssign | ast.AnnAssign):
            return _is_attribute(node.target)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            return isinstance(function, ast.Attribute) and _is_attribute(function.value)
    return False


def _is_attribute(node: ast.expr) -> bool:
    return isinstance(node.value if isinstance(node, ast.Subscript) else node, ast.Attribute)


def read_at(module: nn.Module, name: str) -> Source | None:
    """Return the first statement of a class that reads an attribute, its constructor left out.

    A condition is no statement: it only decides which ones run.
    """
    tree, file = class_of(module), _file_of(type(module))
    nodes = [
        node
        for function in (tree.body if tree is not None else ())
        if isinstance(function, ast.FunctionDef) and function.name != "__init__"
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and mentions(node, name)
    ]
    if not nodes or file is None:
        return None
    return _source((file, min(nodes, key=lambda node: node.lineno)), "forward")


def is_inherited(owner: nn.Module, name: str) -> bool:
    """Return whether a base class makes an attribute, and the owner's own class doesn't."""
    kinds = type(owner).__mro__
    return _assigned(kinds[0], name) is None and any(_assigned(k, name) for k in kinds[1:])


def built(model: nn.Module, part: nn.Module) -> Source | None:
    """Return the first line of a model's own code that makes a module of the class of `part`."""
    places = [
        (file, each)
        for file, node in statements(model)
        for each in ast.walk(node)
        if isinstance(each, ast.Call)
        and getattr(each.func, "attr", getattr(each.func, "id", "")) == type(part).__name__
    ]
    return _source(min(places, key=_order), "__init__") if places else None


def put_in_later(model: nn.Module, owner: nn.Module, name: str) -> Source | None:
    """Return the line that puts a part of another class in the place of the one that was built."""
    part = getattr(owner, name, None)
    kind = type(part).__name__
    place = next((p for k in type(owner).__mro__ if (p := _assigned(k, name)) is not None), None)
    if not isinstance(part, nn.Module) or type(part).__module__.startswith("torch."):
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
    if kind.__module__.startswith("torch."):
        return None
    file = _file_of(kind)
    tree = _tree_of_file(file) if file is not None else None
    for node in ast.walk(tree) if tree is not None else ():
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


_FILLS = frozenset(
    "normal_ uniform_ trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ "
    "kaiming_normal_ zeros_ ones_ constant_ orthogonal_ zero_ fill_ copy_ sparse_ eye_".split()
)


def filled(model: nn.Module, path: str) -> Source | None:
    """Return the line that gave a parameter its first values, in the author's own code.

    The fill that names the attribute comes first, then one of "weight" in a constructor or in an
    initialising function, then the definition.
    """
    names = path.split(".")
    kind = names[-1]
    fills = _fills_of(model, path)
    inner = [name for name in names[:-1] if not name.isdigit()]
    by_name = [p for p in fills if inner and mentions(p[1], inner[-1])]
    if len(inner) == 0:
        by_name = [p for p in fills if mentions(p[1], kind)]
    general = [p for p in fills if mentions(p[1], kind) and not _names_a_part(p[1])]
    for places in (by_name, general):
        if places:
            return _source(min(places, key=_order))
    return defined(model, path)


def fills(model: nn.Module, path: str) -> bool:
    """Return whether the author's own code may give a parameter its first values."""
    return bool(_fills_of(model, path))


def _fills_of(model: nn.Module, path: str) -> list[Place]:
    """Return the fills, but for those of the other parameters of a layer (of biases alone)."""
    kind, owner = path.rpartition(".")[2], owner_of(model, path)
    beside = {name for name, _ in owner.named_parameters(recurse=False)} - {kind} if owner else ()
    return [
        place
        for place in statements(model)
        if calls(place[1], _FILLS) and (mentions(place[1], kind) or not mentions(place[1], *beside))
    ]


def _names_a_part(node: ast.AST) -> bool:
    """Return whether a fill is of `self.part.weight`, a part of its own."""
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Attribute)
        and isinstance(each.value.value, ast.Name)
        and each.value.value.id == "self"
        for each in ast.walk(node)
    )


def loaded(run: Any) -> Source | None:
    """Return the line that loads stored parameters; one that says strict=False comes first."""
    places = [p for p in statements(run) if mentions(p[1], "load_state_dict")]
    loose = [p for p in places if _is_loose(p[1])]
    chosen = loose or places
    return _source(min(chosen, key=_order)) if chosen else None


def _is_loose(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.keyword)
        and each.arg == "strict"
        and isinstance(each.value, ast.Constant)
        and each.value.value is False
        for each in ast.walk(node)
    )


def calls_of(run: Any, function: str) -> Source | None:
    """Return the last line of a model's own code that calls a function or method of that name."""
    if function == "forward":
        return None
    return last_where(run, lambda node: calls(node, {function}))
