"""Whether a mask that is read the wrong way round was made wrongly, or is used wrongly: its name.

What is called `padding` and holds True where tokens are real was made wrongly; what is called so
and is True at padding is right, and whoever uses it is at fault.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.caller import users_line
from attnscope.checks.lines import is_installed
from attnscope.checks.masking.hides import Hide
from attnscope.checks.masking.lines import behind
from attnscope.checks.masking.seen import Seen
from attnscope.checks.statements import enclosing, statement_at

__all__ = ["line_made_inverted"]

_KEEPS = re.compile(
    r"keep|kept|valid|visible|present|real|allow|attend|see|observed|online|no[nt]_?pad|unpadded"
)
_DROPS = re.compile(r"pad|drop|hid|block|ignore|missing|absent|empty|banned|forbid|exclude|offline")


def line_made_inverted(
    seen: Seen, hide: Hide, inputs: Iterable[int | None], real: Tensor
) -> Source | None:
    """Return the line that makes a mask the other way round than its name says.

    real: which tokens are real, (batch, length). Where the last name says nothing, and the mask is
    handed to a library by the function that makes it, its making counts as well. None: what was
    made is right by its name, and its use is at fault.
    """
    last: tuple[Source, bool | None] | None = None
    for operation, keeps in _makings(seen, hide, inputs, real):
        source = operation.source
        if source is None or is_installed(source.file):
            continue
        meant = _meant(source)
        if meant is not None and meant is not keeps:
            return source
        last = (source, meant)
    handed = hide.operation.source
    if last is None or last[1] is not None or handed is None:
        return None
    caller = _user_of(seen, hide)
    return last[0] if caller is not None and _is_beside(last[0], caller) else None


def _is_beside(one: Source, other: Source) -> bool:
    """Return whether two lines are of one function."""
    functions = [
        next((n for n in enclosing(s.file, s.line) if isinstance(n, ast.FunctionDef)), None)
        for s in (one, other)
    ]
    return one.file == other.file and functions[0] is functions[1] is not None


def _user_of(seen: Seen, hide: Hide) -> Source | None:
    """Return the line of the author's own that has a library apply a mask; None: his own does."""
    source = hide.operation.source
    if source is None or not is_installed(source.file):
        return None
    return users_line(seen.subject, seen.call.module, source)


def _makings(
    seen: Seen, hide: Hide, inputs: Iterable[int | None], real: Tensor
) -> Iterator[tuple[Operation, bool]]:
    """Iterate over what makes just the real tokens True, or just the padding, in order."""
    reached = {value for value in inputs if value is not None}
    for operation in behind(seen, hide):
        if reached.isdisjoint(operation.values()):
            continue
        reached.update(operation.defines)
        made = seen.subject.base.tape.tensors[operation.defines[0]].detach().cpu()
        if operation.name in LAYOUT or made.numel() != real.numel():
            continue
        says = (made != 0).reshape(real.shape) if made.shape[0] == real.shape[0] else None
        if says is not None and (torch.equal(says, real) or torch.equal(says, ~real)):
            yield operation, torch.equal(says, real)


def _meant(source: Source) -> bool | None:
    """Return whether a mask is to keep what is True, by what a statement or function calls it."""
    statement = statement_at(source.file, source.line)
    names = [name for target in _targets(statement) for name in _names(target)]
    if isinstance(statement, ast.Return):
        around = enclosing(source.file, source.line)
        names = [each.name for each in around if isinstance(each, ast.FunctionDef)][:1]
    for name in names:
        if _KEEPS.search(name.lower()):
            return True
        if _DROPS.search(name.lower()):
            return False
    return None


def _targets(statement: ast.stmt | None) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else []


def _names(target: ast.expr) -> Iterator[str]:
    for each in ast.walk(target):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
