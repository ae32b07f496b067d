"""`[tool.attnscope]` of a project: which rules run, what is silenced in which files, a baseline.

::

    [tool.attnscope]
    select = ["AS2", "softmax-axis"]            # run these rules alone
    ignore = { AS401 = "heads are pruned" }     # don't run these; a list gives no reasons
    baseline = "attnscope-baseline.json"        # what was there before is silenced

    [tool.attnscope.per-file-ignores]           # silence these where the line is in such a file
    "models/legacy/*.py" = { scale = "as the published checkpoint has it" }

A rule is a code, the beginning of one ("AS4") or a name. Paths are relative to pyproject.toml.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attnscope.checks import rules as table
from attnscope.checks.formats.wording import short_path
from attnscope.checks.selecting import matching
from attnscope.errors import InputError

__all__ = ["FileIgnore", "Settings", "read_settings"]

_KEYS = ("select", "ignore", "baseline", "per-file-ignores")


@dataclass(frozen=True, slots=True)
class FileIgnore:
    """Rules that are silenced in some files.

    pattern: of paths below `folder`, or of names of files; reasons: by code, "" for none given.
    """

    folder: Path
    pattern: str
    reasons: Mapping[str, str]

    def covers(self, file: str) -> bool:
        """Return whether a file is among them."""
        path = os.path.relpath(os.path.realpath(file), os.path.realpath(self.folder))
        parts = Path(path).as_posix()
        return fnmatch.fnmatch(parts, self.pattern) or fnmatch.fnmatch(
            Path(path).name, self.pattern
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What a project asks of a check.

    select: codes of the rules that run, none for all; ignore: codes of rules that don't, each with
    what ignores it and why; unexplained: those for which the project says no reason. files: what is
    silenced in which files. baseline: the file of what was there before.
    """

    select: tuple[str, ...] = ()
    ignore: Mapping[str, str] = field(default_factory=dict)
    files: tuple[FileIgnore, ...] = ()
    baseline: Path | None = None
    unexplained: tuple[str, ...] = ()

    def with_words(self, select: Iterable[str], ignore: Iterable[str]) -> Settings:
        """Return these settings with what a command line says.

        `select` takes the place of the project's, and a rule that it names whole runs even if the
        project ignores it; `ignore` is added.

        Raises:
            InputError: a word names no rule.
        """
        asked, refused = list(select), list(ignore)
        picked = _codes(asked, "reading --select")
        whole = {rule.code for rule in map(table.rule_of, asked) if rule is not None}
        kept = {code: why for code, why in self.ignore.items() if code not in whole}
        added = _codes(refused, "reading --ignore")
        return replace(
            self,
            select=picked if asked else self.select,
            ignore={**kept, **dict.fromkeys(added, "ignored by --ignore")},
            unexplained=tuple(c for c in self.unexplained if c in kept and c not in added),
        )


def read_settings(start: Path) -> Settings:
    """Return the settings of the nearest pyproject.toml that has some, at `start` or above it.

    Args:
        start: a file, or a folder.

    Raises:
        InputError: the file can't be read, or has a key or a rule that doesn't exist.
    """
    folder = start if start.is_dir() else start.parent
    folder = Path(os.path.abspath(folder))  # noqa: PTH100  above it as its author sees it
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            section = _section(file)
            if section is not None:
                return _Reader(file).settings(section)
    return Settings()


def _codes(words: Iterable[str], doing: str) -> tuple[str, ...]:
    """Return the codes that some words name, in order."""
    return tuple(sorted(matching(table.RULES, words, doing)))


def _section(file: Path) -> Any:
    """Return `tool.attnscope`, None where the file has none."""
    try:
        tools = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"reading {file}", str(error), "mend the file") from error
    return tools.get("attnscope") if isinstance(tools, dict) else None


class _Reader:
    """Reads one section, and names the file in every error.

    Args:
        file: the pyproject.toml.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._doing = f"reading [tool.attnscope] of {short_path(str(file))}"

    def settings(self, section: Any) -> Settings:
        """Return what the section says."""
        said = self._table(section, "tool.attnscope")
        for key in said:
            if key not in _KEYS:
                close = difflib.get_close_matches(key.replace("_", "-"), _KEYS, n=1)
                hint = f"did you mean {close[0]}?" if close else f"use {', '.join(_KEYS)}"
                raise InputError(self._doing, f"there is no key {key!r}", hint)
        files = self._table(said.get("per-file-ignores", {}), "per-file-ignores")
        return Settings(
            select=_codes(self._words(said.get("select", []), "select"), self._doing),
            ignore=self._ignored(said.get("ignore", [])),
            files=tuple(
                FileIgnore(self._file.parent, pattern, self._reasons(rules, pattern))
                for pattern, rules in files.items()
            ),
            baseline=self._baseline(said.get("baseline")),
            unexplained=tuple(
                code
                for code, reason in self._reasons(said.get("ignore", []), "ignore").items()
                if not reason.strip()
            ),
        )

    def _ignored(self, value: Any) -> dict[str, str]:
        """Return what is told of each rule that doesn't run."""
        by = f"ignored by {short_path(str(self._file))}"
        return {
            code: f"{by}: {reason}" if reason.strip() else by
            for code, reason in self._reasons(value, "ignore").items()
        }

    def _reasons(self, value: Any, key: str) -> dict[str, str]:
        """Return the reasons by code of a list of rules, or of a table from rules to reasons."""
        said = value if isinstance(value, dict) else dict.fromkeys(self._words(value, key), "")
        found: dict[str, str] = {}
        for word, reason in said.items():
            if not isinstance(reason, str):
                raise InputError(
                    self._doing, f"{key}.{word} is {reason!r}", "give the reason as a text"
                )
            found |= dict.fromkeys(_codes([word], self._doing), reason)
        for word, reason in said.items():  # a rule's own reason, over that of its family
            rule = table.rule_of(word)
            found |= {rule.code: reason} if rule is not None else {}
        return found

    def _baseline(self, value: Any) -> Path | None:
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise InputError(self._doing, f"baseline is {value!r}", "give the path of a file")
        return self._file.parent / value

    def _words(self, value: Any, key: str) -> list[str]:
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return list(value)
        raise InputError(self._doing, f"{key} is {value!r}", 'give a list of rules: ["AS201"]')

    def _table(self, value: Any, key: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        raise InputError(self._doing, f"{key} is {value!r}", "make it a table")
