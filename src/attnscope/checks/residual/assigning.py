"""The line of the author's forward that assigns q, k or v, whose own projection is left out."""

from __future__ import annotations

import ast
import re

from attnscope.calls.source import Source
from attnscope.checks.statements import class_of, first_of
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_part"]

_PARTS = {
    "v": ("value", "v xv V value values value_states value_layer vs v_heads vh Vh"),
    "k": ("key", "k xk K key keys key_states key_layer ks k_heads kh Kh"),
    "q": ("quer(y|ie)", "q xq Q query queries query_states query_layer qs q_heads qh Qh"),
}
"""How a word for it begins, and what variables that hold it are called."""

_OTHERS = re.compile(r"norm|scale|temp|bias|rot|(^|_)ln(_|$)", re.IGNORECASE)
"""Parts that are named after q, k or v, and are no projection."""


def line_of_part(subject: Subject, owner: str, names: list[str]) -> Source | None:
    """Return the line that assigns the one of q, k and v that parameters are named after.

    A projection that is one of a numbered list is taken for that of v, the last one.
    """
    if _OTHERS.search(names[0].partition(".")[0]):
        return None
    numbered = any(part.isdigit() for part in names[0].split("."))
    for part, (word, variables) in _PARTS.items():
        named = re.compile(
            rf"(^|[._])(w?{part}|w{part}s?|{word}s?|{part}_proj|to_{part}|lin_{part}|"
            rf"{part}_lin(ear)?|linear_{part}|w_{part}|{word}_(layer|proj))(\.|$|_)",
            re.IGNORECASE,
        )
        if any(named.search(name) for name in names) or (numbered and part == "v"):
            return _first_assigned(subject, owner, frozenset(variables.split()))
    return None


def _first_assigned(subject: Subject, owner: str, variables: frozenset[str]) -> Source | None:
    module = subject.module(owner)
    written = class_of(type(module)) if module is not None else None
    if written is None or not any(call.module.startswith(owner) for call in subject.calls):
        return None
    file, tree = written
    return first_of(
        ((file, node) for node in ast.walk(tree) if _assigns(node, variables)), "forward"
    )


def _assigns(node: ast.AST, variables: frozenset[str]) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(part, ast.Name) and part.id in variables
        for target in node.targets
        for part in (target.elts if isinstance(target, ast.Tuple) else (target,))
    )
