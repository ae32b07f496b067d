"""A folder that appears whole or not at all, also where it takes the place of another."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from attnscope.errors import StoreError

__all__ = ["replaced", "write_durably"]

_RENAME_NOREPLACE = 1  # flags and constant of renameat2(2)
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@contextlib.contextmanager
def replaced(path: Path, marker: str, mark: str, *, overwrite: bool) -> Iterator[Path]:
    """Hand out an empty folder beside `path`; rename it to `path` when the block ends well.

    marker, mark: a folder may be overwritten only if its JSON file `marker` has the format `mark`,
        so that no other data is ever lost.

    Raises:
        StoreError: `path` is taken, has no parent folder, or can't be written.
    """
    path = path.absolute()
    doing = f"saving the trace {path}"
    _refuse_taken(path, doing, marker, mark, overwrite=overwrite)
    if not path.parent.is_dir():
        found = "is a file" if path.parent.exists() else "does not exist"
        raise StoreError(
            doing, f"the folder {path.parent} {found}", "make it first, or name another"
        )
    partial = path.parent / f".{path.name}.{secrets.token_hex(4)}.partial"
    try:
        partial.mkdir()
        yield partial
        _sync(partial)
        _put(partial, path, overwrite=overwrite)
        _sync(path.parent)
    except OSError as error:
        todo = "free the space or the name, or save to another place"
        raise StoreError(doing, error.strerror or str(error), todo) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # gone already, unless something failed


def write_durably(path: Path, data: bytes) -> None:
    """Write a new file and see it onto the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _refuse_taken(path: Path, doing: str, marker: str, mark: str, *, overwrite: bool) -> None:
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite:
        todo = "name a new folder, or give overwrite=True"
        raise StoreError(doing, "it exists already", todo)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if json.loads((path / marker).read_bytes()).get("format") == mark and not path.is_symlink():
            return
    raise StoreError(
        doing, "what is there is no stored trace", "remove it yourself, or name a new folder"
    )


def _put(partial: Path, path: Path, *, overwrite: bool) -> None:
    """Rename `partial` to `path`; what was there before is then at `partial`, for removal."""
    if overwrite and path.exists():
        if not _rename(partial, path, _RENAME_EXCHANGE):
            _exchange_in_steps(partial, path)
    elif not _rename(partial, path, _RENAME_NOREPLACE):
        partial.rename(path)


def _exchange_in_steps(partial: Path, path: Path) -> None:
    """Exchange two folders where the system has no single step for it."""
    old = partial.with_suffix(".old")
    path.rename(old)
    try:
        partial.rename(path)
    except OSError:
        old.rename(path)
        raise
    old.rename(partial)


def _rename(source: Path, target: Path, flag: int) -> bool:
    """Rename in one step by renameat2; False where the system or the file system has none.

    Raises:
        FileExistsError: the target exists and may not be replaced.
    """
    if not sys.platform.startswith("linux"):
        return False
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return False
    names = os.fsencode(source), os.fsencode(target)
    if function(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flag) == 0:
        return True
    error = ctypes.get_errno()
    if error == errno.EEXIST:
        raise FileExistsError(error, os.strerror(error), str(target))
    return False


def _sync(folder: Path) -> None:
    """See the entries of a folder onto the disk, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
