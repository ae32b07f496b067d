"""Where the author's own code gives parameters their first values, or loads them."""

from __future__ import annotations

import ast
from typing import Any

from torch import nn

from attnscope.calls.source import Source
from attnscope.checks.definitions import defined, owner_of
from attnscope.checks.statements import Place, calls, first_of, mentions, statements

__all__ = ["filled", "fills", "loaded"]


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
    return first_of(by_name or general) or defined(model, path)


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
    return first_of(loose or places)


def _is_loose(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.keyword)
        and each.arg == "strict"
        and isinstance(each.value, ast.Constant)
        and each.value.value is False
        for each in ast.walk(node)
    )
