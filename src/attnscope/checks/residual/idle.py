"""Parameters of the attention that reach no output."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnscope.calls.source import Source
from attnscope.checks.definitions import is_inherited
from attnscope.checks.lines import is_installed
from attnscope.checks.residual.graph import needed_by_outputs, reached
from attnscope.checks.residual.owning import around, attending, own_parameters
from attnscope.checks.residual.using import line_of_idle
from attnscope.checks.statements import class_of, keeps
from attnscope.checks.subject.libraries import is_of_library
from attnscope.checks.subject.subject import Subject

__all__ = ["Idle", "idle_parameters"]

_OPTIONAL = re.compile(
    r"expert|pooler|classif|router|mask_token|(^|\.)head|predict|decoder_pos|lm_head"
)
"""Parts that are used for some tokens or tasks only."""

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Idle:
    """Parameters of one module that take no part.

    read: whether the run reads them at all. last: layers before it, of the same code, do take part,
    so that only the end of a stack is not asked for (an earlier layer's output is). stock: a
    library wrote the module and every line that attends in it, so that its authors know.
    """

    owner: str
    names: tuple[str, ...]
    read: bool
    source: Source | None
    last: bool
    stock: bool


def idle_parameters(subject: Subject) -> Iterator[Idle]:
    """Iterate over the idle parameters of the modules that made calls, by attribute."""
    model = subject.model
    if model is None:
        return
    needed, names = needed_by_outputs(subject), subject.base.parameters
    busy = {names[v] for v in needed if v in names}
    read = set(names.values())
    known = dict(model.named_parameters())
    trained = any(p.requires_grad for p in known.values())
    groups: dict[tuple[str, str], list[str]] = {}
    owners = attending(subject, model)
    parts = [(owner, name) for owner in owners for name in own_parameters(model, owner)]
    parts += [
        (owner, name)
        for owner, name in around(model, owners)
        if name in read and name not in busy and _ends_before_attention(subject, name)
    ]
    for owner, name in dict.fromkeys(parts):
        parameter = known.get(name)
        if name in busy or parameter is None or (trained and not parameter.requires_grad):
            continue
        attribute = name.removeprefix(f"{owner}." if owner else "").split(".")[0]
        groups.setdefault((owner, attribute), []).append(name)
    for owner in attending(subject, model):
        lost = [name for name in own_parameters(model, owner) if name in read & set(known)]
        if lost and busy.isdisjoint(lost):  # what it computes is dropped, all of it
            groups = {at: names for at, names in groups.items() if at[0] != owner}
            groups[owner, ""] = [name for name in lost if not trained or known[name].requires_grad]
    for (owner, attribute), members in groups.items():
        conditional = attribute and _is_conditional(model, owner, attribute)
        if conditional or _OPTIONAL.search(attribute):
            continue
        wanting = [name for name in members if not _is_copy(known, busy, name)]
        if wanting and not _is_kept(subject, wanting):
            stock = _is_stock(subject, model, owner)
            line = line_of_idle(subject, model, owner, wanting, dropped=not attribute)
            source = _own_line(subject, owner, line)
            asked = not read.isdisjoint(wanting)
            last = asked and _ends_stack(model, owner, wanting, busy)
            yield Idle(owner, tuple(wanting), asked, source, last, stock)


def _ends_before_attention(subject: Subject, name: str) -> bool:
    """Return whether what is made of a parameter is lost before the last context is made.

    What is lost later (a pooled vector that nobody asks for) has nothing to do with attention.
    """
    tape = subject.base.tape
    after = reached(tape, [v for v, each in subject.base.parameters.items() if each == name])
    contexts = {v for each in subject.base.located for v, _ in each.spots.get("context", [])}
    order = list(enumerate(tape.operations))
    last = max((at for at, op in order if not after.isdisjoint(op.defines)), default=-1)
    return last < max((at for at, op in order if not contexts.isdisjoint(op.defines)), default=-1)


def _is_stock(subject: Subject, model: nn.Module, owner: str) -> bool:
    """Return whether a library wrote a module and the code that attends in it."""
    return is_of_library(model.get_submodule(owner)) and not _own_sources(subject, owner)


def _own_sources(subject: Subject, owner: str) -> list[Source]:
    """Return the author's own lines that attend in a module."""
    prefix = f"{owner}." if owner else ""
    inside = [c for c in subject.calls if c.module == owner or c.module.startswith(prefix)]
    return [c.source for c in inside if not is_installed(c.source.file)]


def _own_line(subject: Subject, owner: str, line: Source | None) -> Source | None:
    """Return a line, or the author's that attends where a library's is of code that did not run."""
    if line is None or not is_installed(line.file):
        return line
    return next(iter(_own_sources(subject, owner)), line)


def _is_kept(subject: Subject, names: list[str]) -> bool:
    """Return whether what is made of parameters is kept as an attribute, a loss perhaps."""
    values = [v for v, name in subject.base.parameters.items() if name in names]
    after = reached(subject.base.tape, values)
    last = [op for op in subject.base.tape.operations if not after.isdisjoint(op.defines)]
    if not last or last[-1].source is None:
        return False
    return keeps(last[-1].source, last[-1].name)


def _is_conditional(model: nn.Module, owner: str, attribute: str) -> bool:
    """Return whether an attribute is used only where some argument says so, or is inherited."""
    module = model.get_submodule(owner)
    written = class_of(type(module))
    if written is None or is_inherited(module, attribute):
        return written is not None
    functions = [
        n for n in ast.walk(written[1]) if isinstance(n, ast.FunctionDef) and n.name != "__init__"
    ]
    asked = {
        attribute,
        *(f.name for f in functions if f.name != "forward" and _reads(f, attribute)),
    }
    tests = [n for f in functions for n in ast.walk(f) if isinstance(n, ast.If | ast.IfExp)]
    for node in tests:
        reads = any(_reads(node, name) for name in asked)
        if (
            reads
            and not any(_reads(node.test, name) for name in asked)
            and _asks_argument(node.test)
        ):
            return True
    return False


def _reads(node: ast.AST, attribute: str) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == attribute for n in ast.walk(node))


def _asks_argument(test: ast.expr) -> bool:
    """Return whether a condition is about something else than the module's own settings."""
    return any(
        isinstance(n, ast.Name) and n.id not in {"self", "hasattr", "isinstance", "torch"}
        for n in ast.walk(test)
    )


def _is_copy(known: dict[str, nn.Parameter], busy: set[str], name: str) -> bool:
    """Return whether the same numbers are used from another parameter (a fused copy)."""
    own = known[name].detach()
    if (
        own.layout != torch.strided
        or own.dim() == 0
        or own.numel() < 2
        or bool((own == own.flatten()[0]).all())
    ):
        return False
    alike = _NUMBER.sub("#", name)  # the same one of another layer, which may start alike
    names = (other for other in busy if other in known and _NUMBER.sub("#", other) != alike)
    others = (known[other].detach() for other in names)
    return any(_holds(other, own) for other in others if other.layout == torch.strided)


def _holds(whole: Tensor, part: Tensor) -> bool:
    if whole.dim() != part.dim() or whole.shape[1:] != part.shape[1:] or len(whole) < len(part):
        return False
    flat, wanted = whole.reshape(len(whole), -1), part.reshape(len(part), -1)
    starts = (flat[: len(flat) - len(wanted) + 1] == wanted[0]).all(-1).nonzero().flatten()
    return any(torch.equal(flat[at : at + len(wanted)], wanted) for at in starts.tolist())


def _ends_stack(model: nn.Module, owner: str, names: list[str], busy: set[str]) -> bool:
    """Return whether the same parameters take part in an earlier layer, and in no later one."""
    parts = owner.split(".")
    own = type(model.get_submodule(owner))
    for at in [n for n, part in enumerate(parts) if part.isdigit()]:
        used = []
        for path, module in model.named_modules():
            other = path.split(".")
            alike = len(other) == len(parts) and other[at].isdigit() and type(module) is own
            if not alike or [*other[:at], *other[at + 1 :]] != [*parts[:at], *parts[at + 1 :]]:
                continue
            if all(path + name.removeprefix(owner) in busy for name in names):
                used.append(int(other[at]))
        if used and max(used) < int(parts[at]):
            return True
    return False
