"""Parameters that outputs get their gradient through, and that the model doesn't list.

`model.parameters()` sees what modules hold as attributes. What lies in a list, a dict, a closure or
a global, or is made in the forward, is used all the same, and no optimiser gets it.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.held import storage_key
from attnscope.calls.source import Source
from attnscope.checks.definitions import defined
from attnscope.checks.residual.graph import node_of
from attnscope.checks.statements import enclosing, first_where, mentions
from attnscope.checks.subject.code import own_classes
from attnscope.checks.subject.libraries import is_of_library
from attnscope.checks.subject.restoring import restored, seeded
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.tokens import made_of_inputs
from attnscope.differ.sides.outputs import outputs_of

__all__ = ["Unlisted", "unlisted_parameters"]

_DEEPEST = 4
"""Containers in containers that are followed."""


@dataclass(frozen=True, slots=True, eq=False)
class Unlisted:
    """Tensors that learn nothing, though they could, kept at one place.

    name: what holds them, "" where each run makes them anew. owner: the module that has it. kind:
    what it is, in words. gradient: the largest entry that reaches them.
    """

    name: str
    owner: str
    kind: str
    tensors: tuple[Tensor, ...]
    gradient: float
    source: Source | None

    @property
    def count(self) -> int:
        """How many numbers they are."""
        return sum(each.numel() for each in self.tensors)


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    owner: str
    kind: str


def unlisted_parameters(subject: Subject) -> Iterator[Unlisted]:
    """Iterate over them, place by place.

    A part that was kept from the list on purpose (`self.__dict__["part"] = part`) is another's.
    """
    model = subject.model
    first = _strangers(subject, model) if model is not None else {}
    if model is None or not first:
        return
    gradients, anew = _gradients_of_two_runs(subject, model)
    places = _places(model)
    groups: dict[_Place, list[Tensor]] = {}
    for tensor in first.values():
        place = places.get(id(tensor))
        if place is not None and place.kind:
            groups.setdefault(place, []).append(tensor)
    for place, tensors in groups.items():
        largest = max((gradients.get(id(each), 0.0) for each in tensors), default=0.0)
        source = _line(model, place)
        yield Unlisted(place.name, place.owner, place.kind, tuple(tensors), largest, source)
    made = [each for each in first.values() if id(each) not in places and id(each) not in gradients]
    if anew and made:
        yield from _made_anew(subject, made, max(anew))


def _strangers(subject: Subject, model: nn.Module) -> dict[int, Tensor]:
    """Return the leaves of the base run's graph that are no inputs, and that no module lists."""
    listed = {id(each) for each in (*model.parameters(), *model.buffers())}
    tensors = (tensor for _, tensor in subject.given.tensors())
    given = {id(each) for each in (*subject.base.leaves.values(), *tensors)}
    found = {id(each): each for each in _leaves(subject.base.outputs.values())}
    return {key: each for key, each in found.items() if key not in listed | given}


def _leaves(outputs: Any) -> Iterator[Tensor]:
    """Iterate over the tensors that autograd would give a gradient to."""
    waiting = [node for each in outputs if (node := node_of(each)) is not None]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        waiting += [each for each, _ in node.next_functions if each is not None]


def _gradients_of_two_runs(
    subject: Subject, model: nn.Module
) -> tuple[dict[int, float], list[float]]:
    """Return the largest gradients of leaves that two runs share, and of those that one made.

    What the first run registers, as a lazy layer does, is none of the latter.
    """

    def leaves() -> dict[int, Tensor]:
        seeded(subject.seed)
        outputs = list(outputs_of(subject.given.call(subject.run)).values())
        found = {id(each): each for each in _leaves(outputs)}
        ends = [each for each in outputs if each.requires_grad]
        loss = [_projected(each) for each in ends]
        grads = torch.autograd.grad(loss, list(found.values()), allow_unused=True) if found else ()
        sizes.update({key: _largest(grad) for key, grad in zip(found, grads, strict=True)})
        return found

    sizes: dict[int, float] = {}
    with restored(subject.run, subject.given.values), torch.enable_grad():
        model.eval()
        one = leaves()
        listed = {id(each) for each in model.parameters()}
        two = leaves()
        still = {id(each) for each in model.parameters()}
    kept = {key: sizes[key] for key in one if key in two}
    made = {k for k, each in one.items() if k not in two and isinstance(each, nn.Parameter)}
    anew = [sizes[key] for key in made if key not in listed & still]
    return kept, anew


def _projected(output: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(11)
    along = torch.randn(output.shape, generator=generator).to(output)
    return (output * along).sum()


def _largest(gradient: Tensor | None) -> float:
    return float(gradient.abs().max()) if gradient is not None and gradient.numel() else 0.0


def _made_anew(subject: Subject, tensors: list[Tensor], gradient: float) -> Iterator[Unlisted]:
    """Iterate over the parameters that the forward makes, line by line."""
    side = subject.base
    tape, fed = side.tape, made_of_inputs(subject, side)
    data = {storage_key(tape.tensors[value]) for value in fed}
    lines: dict[Source | None, list[Tensor]] = {}
    for each in tensors:
        if isinstance(each, nn.Parameter) and storage_key(each) not in data:
            lines.setdefault(_line_of_making(subject, each), []).append(each)
    for source, made in lines.items():
        yield Unlisted("", "", "is made anew in every run", tuple(made), gradient, source)


def _line_of_making(subject: Subject, tensor: Tensor) -> Source | None:
    """Return the line that gave a tensor its values, else the last one that makes a parameter."""
    tape, key = subject.base.tape, storage_key(tensor)
    value = tape.value_of(tensor)
    for operation in tape.operations:
        if operation.target != value and value in operation.needs:
            return _last_making(operation.source) if operation.source is not None else None
        if any(storage_key(tape.tensors[each]) == key for each in operation.defines):
            return operation.source
    return None


def _last_making(use: Source) -> Source:
    """Return the last line before a use, in the same function, that makes a parameter."""
    functions = [
        each for each in enclosing(use.file, use.line) if isinstance(each, ast.FunctionDef)
    ]
    made = [
        node
        for function in functions[:1]
        for node in ast.walk(function)
        if isinstance(node, ast.stmt)
        and not hasattr(node, "body")
        and node.lineno <= use.line
        and mentions(node, "Parameter")
    ]
    if not made:
        return use
    line = max(node.lineno for node in made)
    return Source(use.file, line, use.function, linecache.getline(use.file, line).strip())


# -- what holds them ---------------------------------------------------------------------------


def _places(model: nn.Module) -> dict[int, _Place]:
    """Return what holds a tensor, by its identity; kind "": on purpose."""
    found: dict[int, _Place] = {}

    def note(value: object, place: _Place) -> None:
        for key in _held(value):
            found.setdefault(key, place)

    modules = dict(model.named_modules())
    own = [(path, name, v) for path, each in modules.items() for name, v in _attributes(each)]
    for path, name, value in own:
        if isinstance(value, nn.Module | nn.Parameter):
            note(value, _Place(name, path, ""))
    for path, name, value in own:
        note(value, _Place(name, path, _kind(value)))
    for kind in own_classes(model):
        for name, value in vars(kind).items():
            note(value, _Place(name, kind.__name__, "is an attribute of the class"))
            for known, outer in _outside(value).items():
                note(outer, _Place(known, "", "is a variable outside of the model"))
    return found


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    aside = ("_parameters", "_modules", "_buffers")
    return ((name, value) for name, value in vars(module).items() if name not in aside)


def _outside(function: object) -> dict[str, object]:
    """Return the globals and the closed-over variables that a function reads, by name."""
    plain = inspect.unwrap(function) if callable(function) else None
    if not isinstance(plain, FunctionType):
        return {}
    known = {name: plain.__globals__.get(name) for name in plain.__code__.co_names}
    cells = zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True)
    return known | {name: cell.cell_contents for name, cell in cells}


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return "is a tensor, no nn.Parameter"
    if isinstance(value, list | dict | tuple | set):
        return f"is a {type(value).__name__}, in which no module looks"
    return "is no nn.Module"


def _held(value: Any, depth: int = 0) -> Iterator[int]:
    """Iterate over the identities of the tensors in a value and in whatever lies in it."""
    inner: Iterable[object] = ()
    if isinstance(value, Tensor):
        yield id(value)
    elif isinstance(value, nn.Module):
        yield from map(id, value.parameters())
        inner = [each for module in value.modules() for _, each in _attributes(module)]
    elif isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list | tuple | set):
        inner = value
    elif isinstance(value, FunctionType):
        inner = [cell.cell_contents for cell in value.__closure__ or ()]
    elif not isinstance(value, type | ModuleType) and not is_of_library(value):
        inner = getattr(value, "__dict__", {}).values()
    for each in list(inner) if depth < _DEEPEST else ():
        yield from _held(each, depth + 1)


def _line(model: nn.Module, place: _Place) -> Source | None:
    """Return the line that makes what holds them."""
    path = f"{place.owner}.{place.name}" if place.owner else place.name
    return defined(model, f"{path}.0") or first_where(
        model,
        lambda node: (
            isinstance(node, ast.Assign)
            and any(getattr(each, "id", None) == place.name for each in node.targets)
        ),
    )
