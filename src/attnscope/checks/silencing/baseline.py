"""A baseline: the findings of one day, by target; those that are there again are silenced.

A finding is found again by its fingerprint (code, module and text of the line), so that it may move
within its file. Line numbers are written for people and never compared.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnscope.checks.finding import Finding
from attnscope.checks.fingerprint import fingerprint, line_of
from attnscope.checks.formats.wording import is_place
from attnscope.checks.report import Report
from attnscope.errors import InputError

__all__ = ["Baseline", "read_baseline", "write_baseline"]

SCHEMA = "attnscope.baseline/1"
_TEXTS = ("fingerprint", "code", "name", "module", "text")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a file says of one target.

    entries: code, place and such of each finding, by fingerprint; counts: how often it was there.
    """

    file: Path
    entries: dict[str, dict[str, Any]]
    counts: Counter[str]


def read_baseline(file: Path, target: str, folder: Path) -> Baseline:
    """Return the part of a baseline file that belongs to a target.

    Args:
        file: written by `write_baseline`.
        target: the TARGET as it was given.
        folder: from which the target was named.

    Raises:
        InputError: the file can't be read, or is no baseline.
    """
    own = _targets(file).get(_key(target, file, folder), [])
    for entry in own:
        if not isinstance(entry, dict) or not all(
            isinstance(entry.get(key), str) for key in _TEXTS
        ):
            raise _no_baseline(file, f"an entry of {target} has not all of {', '.join(_TEXTS)}")
    prints = [entry["fingerprint"] for entry in own]
    return Baseline(file, dict(zip(prints, own, strict=True)), Counter(prints))


def write_baseline(report: Report, file: Path, folder: Path) -> int:
    """Write the findings of a report as the baseline of its target, and return how many.

    What the file says of other targets stays.

    Args:
        report: with the findings that are to be silenced from now on.
        file: made, or changed where it exists.
        folder: from which the target was named.

    Raises:
        InputError: the file exists and is no baseline, or can't be written.
    """
    targets = _targets(file) if file.exists() else {}
    targets.pop(_key(report.target, file, folder), None)
    found = list(_with_followers(report.findings))
    if found:
        targets[_key(report.target, file, folder)] = [_entry(each, file) for each in found]
    data = {"schema": SCHEMA, "targets": dict(sorted(targets.items()))}
    try:
        file.write_text(f"{json.dumps(data, indent=2, ensure_ascii=False)}\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"writing the baseline {file}",
            error.strerror or str(error),
            "name a file in a folder that exists",
        ) from error
    return len(report.findings)


def _with_followers(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Iterate over findings and those folded under them, which may stand alone one day."""
    for finding in findings:
        yield finding
        yield from _with_followers(finding.follows)


def _entry(finding: Finding, file: Path) -> dict[str, Any]:
    source = finding.source
    place = {}
    if source is not None and is_place(source):
        place = {"file": _relative(source.file, file.parent), "line": source.line}
    return {
        "fingerprint": fingerprint(finding),
        "code": finding.code,
        "name": finding.name,
        "module": finding.module,
        **place,
        "text": line_of(finding),
    }


def _targets(file: Path) -> dict[str, list[Any]]:
    """Return what a file says, by target."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            f"reading the baseline {file}", "there is no such file", "make it with --write-baseline"
        ) from error
    except (OSError, ValueError) as error:
        raise _no_baseline(file, str(error)) from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise _no_baseline(file, f"its schema is not {SCHEMA}")
    targets = data.get("targets")
    if not isinstance(targets, dict) or not all(
        isinstance(each, list) for each in targets.values()
    ):
        raise _no_baseline(file, "it has no list of findings by target")
    return targets


def _no_baseline(file: Path, found: str) -> InputError:
    return InputError(
        f"reading the baseline {file}",
        found,
        "write it anew with --write-baseline, or leave it out",
    )


def _key(target: str, file: Path, folder: Path) -> str:
    """Return a target as the baseline names it: its file as seen from the baseline's folder."""
    left, sign, name = target.rpartition(":") if ":" in target else (target, "", "")
    path = folder / left
    if not left or not path.exists():
        return target
    return f"{_relative(str(path), file.parent)}{sign}{name}"


def _relative(path: str, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return Path(path).as_posix()
