"""Importing a user's file or module, and leaving the interpreter as it was.

A file is imported under a name of its own, so that two targets called `model.py` (a candidate and
its reference) never meet. The modules beside it that it imports are forgotten afterwards for the
same reason; the file's own module stays known under its unique name, because PyTorch and
`typing` look up the module of a class. After a failure nothing stays.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from attnscope.errors import TargetError
from attnscope.targets.blame import describe, place, shown

_numbers = itertools.count()


class _FromSource(SourceFileLoader):
    """Reads the source each time: kept bytecode is taken for it where a quick edit left its size.

    Nor is a `__pycache__` left beside a user's file.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


@contextmanager
def importing_from(folder: Path | None) -> Iterator[None]:
    """Let `import` find what lies in `folder`, and forget afterwards what was found there.

    Modules that were known before stay as they are. With None, nothing changes.
    """
    entry = str(folder) if folder is not None else ""
    if folder is None or entry in sys.path:
        yield
        return
    before = set(sys.modules)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)
        for name in set(sys.modules) - before:
            if _lies_in(folder, name):
                sys.modules.pop(name, None)


def import_file(path: Path) -> ModuleType:
    """Import the Python file at `path` under a unique name.

    A file inside a package (its folder has an `__init__.py`) may use relative imports. To be
    called inside `importing_from(home(path))`.

    Raises:
        TargetError: the file can't be read, isn't Python, or raises while it is imported.
    """
    doing = f"importing {shown(path)}"
    parents = _packages(path)
    name = ".".join([*parents, f"{path.stem}__attnscope_{next(_numbers)}"])
    loader = _FromSource(name, str(path)) if path.suffix == ".py" else None
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise TargetError(doing, "it is not a Python file", "give a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        _explain(error, doing, path)
        raise
    return module


def import_module(name: str, folder: Path) -> ModuleType:
    """Import the module `name` as Python does, also from the working directory `folder`.

    To be called inside `importing_from(folder)`.

    Raises:
        TargetError: there is no such module, or it raises while it is imported.
    """
    doing = f"importing the module {name}"
    before = set(sys.modules)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise TargetError(
                doing,
                f"no module named {error.name}",
                "install it, start from the folder that holds it, or give path/file.py:name",
            ) from error
        _forget(name, before)
        _explain(error, doing, folder)
        raise
    except BaseException as error:
        _forget(name, before)
        _explain(error, doing, folder)
        raise


def home(path: Path) -> Path:
    """Return the folder from which the file at `path` imports: that of its outermost package."""
    return path.parents[len(_packages(path))]


def _packages(path: Path) -> list[str]:
    """Return the names of the packages around `path`, outermost first."""
    names: list[str] = []
    for folder in path.parents:
        if not (folder / "__init__.py").is_file() or not folder.name.isidentifier():
            break
        names.insert(0, folder.name)
    return names


def _explain(error: BaseException, doing: str, near: Path) -> None:
    """Raise a TargetError that names the user's own line, unless the user interrupted."""
    if isinstance(error, KeyboardInterrupt | TargetError):
        return
    where = place(error, near if near.is_dir() else near.parent)
    found = f"{describe(error)} at {where}" if where else describe(error)
    todo = "mend that line"
    if isinstance(error, SystemExit):
        found = f"it ends the program ({describe(error)}) at {where}"
        todo = 'put what runs the program under: if __name__ == "__main__"'
    elif isinstance(error, ModuleNotFoundError):
        todo = f"install {error.name}, or put it beside the file"
    elif isinstance(error, OSError) and not where:
        todo = "check the path and its permissions"
    raise TargetError(doing, found, todo) from error


def _forget(name: str, before: set[str]) -> None:
    """Forget the modules of the package of `name` that a failed import left behind."""
    top = name.partition(".")[0]
    for other in set(sys.modules) - before:
        if other == top or other.startswith(f"{top}."):
            sys.modules.pop(other, None)


def _lies_in(folder: Path, name: str) -> bool:
    """Return whether the top-level module of `name` is a file or a package right in `folder`."""
    top = name.partition(".")[0]
    if "__attnscope_" in name:
        return False
    return (folder / f"{top}.py").is_file() or (folder / top).is_dir()
