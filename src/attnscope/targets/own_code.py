"""A Python file or module that a target names: what it defines, while it can still import."""

from __future__ import annotations

import ast
import difflib
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from attnscope.calls.source import Source
from attnscope.checks.expect import read_expect
from attnscope.errors import TargetError
from attnscope.targets.blame import shown
from attnscope.targets.files import home, import_file, import_module, importing_from
from attnscope.targets.members import candidates, member, read_inputs
from attnscope.targets.target import Inputs

FORMS = (
    "a TARGET is path/file.py:name, package.module:name, path/file.py, a checkpoint folder, "
    "arch:NAME, sample:minilm or sample:smollm2"
)


@dataclass(frozen=True, slots=True)
class OwnCode:
    """What a target's file or module defines.

    place: the file or module as a person writes it; name: what the target names in it, or "";
    folder: from which it imports.
    """

    module: ModuleType
    place: str
    name: str
    folder: Path

    def value(self) -> Any:
        """Return what the target names, or what the file calls `model`.

        Raises:
            TargetError: there is none.
        """
        if self.name:
            return member(self.module, self.name, self.place)
        if hasattr(self.module, "model"):
            return self.module.model
        names = candidates(self.module)
        own = ", ".join(f"{self.place}:{name}" for name in names)
        raise TargetError(
            f"looking for the model of {self.place}",
            "the file defines no `model`",
            f"name one of its own: {own}" if names else FORMS,
        )

    def maker(self) -> Source | None:
        """Return the last line of the file that gives the name that the target names its value.

        Of a function that is the line of what it returns.
        """
        file = self.module.__file__
        lines = linecache.getlines(file) if file else []
        try:
            statements = ast.parse("".join(lines)).body
        except SyntaxError:
            return None
        name = self.name.partition(".")[0] or "model"
        made = [_line_of_value(each) for each in statements if name in _names(each)]
        if not file or not made:
            return None
        return Source(file, made[-1], "<module>", lines[made[-1] - 1].strip())

    def expect(self) -> dict[str, Any]:
        """Return what the author intends, checked; empty where the file doesn't say."""
        if getattr(self.module, "expect", None) is None:
            return {}
        return read_expect(self.module.expect, f"reading expect of {self.place}")

    def inputs(self) -> Inputs | None:
        """Return the inputs that the file defines, or None."""
        if getattr(self.module, "inputs", None) is None:
            return None
        return read_inputs(self.module.inputs, f"reading inputs of {self.place}", self.folder)


def _line_of_value(statement: ast.stmt) -> int:
    """Return the line of a statement, or of the last value that a function returns."""
    if not isinstance(statement, ast.FunctionDef):
        return statement.lineno
    ends = [node.lineno for node in ast.walk(statement) if isinstance(node, ast.Return)]
    return max(ends, default=statement.lineno)


def _names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
    return {each.id for each in stored if isinstance(each.ctx, ast.Store)}


@contextmanager
def opened(target: str, known: dict[str, ModuleType] | None = None) -> Iterator[OwnCode]:
    """Import the file or module of a target; until the end, it finds what lies beside it.

    known: files that were imported already, by path; this one is added to them.

    Raises:
        TargetError: there is no such file or module, or it raises while it is imported.
    """
    path, name = split(target)
    folder = home(path) if path else Path.cwd()
    with importing_from(folder):
        if path is None:
            place = target.partition(":")[0]
            module = import_module(place, folder)
        else:
            place = shown(path)
            known = {} if known is None else known
            module = known[str(path)] if str(path) in known else import_file(path)
            known[str(path)] = module
        yield OwnCode(module, place, name, folder)


def split(target: str) -> tuple[Path | None, str]:
    """Return the file of a target and the name in it; the file is None for a module's name.

    Raises:
        TargetError: it has neither form, or there is no such file.
    """
    doing = f"looking up {target}"
    left, sign, name = target.rpartition(":") if ":" in target else (target, "", "")
    path = Path(left)
    if path.suffix == ".py" or "/" in left or path.is_file():
        if not path.exists():
            raise TargetError(doing, f"there is no file {left}", _similar(path))
        if path.is_dir() or path.suffix != ".py":
            raise TargetError(doing, f"{left} is not a Python file", FORMS)
        if sign and not name:
            raise TargetError(doing, "nothing stands after the colon", "write path/file.py:name")
        return path.resolve(), name
    if not sign:
        raise TargetError(doing, f"there is no file or folder {target!r}", FORMS)
    if not all(part.isidentifier() for part in left.split(".")) or not name:
        raise TargetError(doing, f"{left!r} is no file and no module", FORMS)
    return None, name


def _similar(path: Path) -> str:
    folder = path.parent
    names = [other.name for other in folder.glob("*.py")] if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean {shown(folder / close[0])}?" if close else "check the path"
