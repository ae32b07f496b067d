"""Judges a check of one program against the truth that stands in the program's comments."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from attnscope.calls.source import Source

__all__ = ["Truth", "Verdict", "judge", "reached", "summary", "truth_of"]

_FAULT = re.compile(r"#\s*fault:\s*([A-Z0-9|]+)")
_ALSO = re.compile(r"#\s*(?:also|note):\s*([A-Z0-9|, ]+)")


@dataclass(frozen=True, slots=True)
class Truth:
    """What is wrong with a program: codes and lines that are right, codes that may be."""

    codes: frozenset[str]
    lines: frozenset[int]
    also: frozenset[str]

    @property
    def faulty(self) -> bool:
        """Whether there is a fault at all."""
        return bool(self.codes)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a check of one program compares with the truth.

    found: (code, severity, line) of each finding, those that follow from others left out; error:
    what was raised instead of a report.
    """

    file: Path
    truth: Truth
    found: tuple[tuple[str, str, int], ...] = ()
    seconds: float = 0.0
    error: str = ""
    messages: tuple[str, ...] = field(default=())

    @property
    def detected(self) -> bool:
        """Whether a faulty program is called faulty: by a right code, or an error or a warning."""
        return self.named or any(severity != "note" for _, severity, _ in self.found)

    @property
    def named(self) -> bool:
        """Whether a right code is among the findings."""
        return any(code in self.truth.codes for code, _, _ in self.found)

    @property
    def placed(self) -> bool:
        """Whether a finding of a right code points at a right line."""
        return any(c in self.truth.codes and line in self.truth.lines for c, _, line in self.found)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Errors and warnings that the truth doesn't know."""
        known = self.truth.codes | self.truth.also
        return tuple(c for c, severity, _ in self.found if severity != "note" and c not in known)

    @property
    def right(self) -> bool:
        """Whether everything is as it should be."""
        if self.error:
            return False
        return (self.named and self.placed if self.truth.faulty else True) and not self.alarms

    def line(self) -> str:
        """Return one line about it."""
        if self.right:
            state = "ok"
        elif self.error:
            state = "RAISED"
        elif self.alarms and not self.truth.faulty:
            state = "FALSE ALARM"
        elif not self.named:
            state = "OTHER CODE" if self.detected else "MISSED"
        else:
            state = "OTHER LINE" if not self.placed else "MORE"
        found = ", ".join(f"{code}:{line} {severity[0]}" for code, severity, line in self.found)
        wanted = "|".join(sorted(self.truth.codes)) or "sound"
        lines = ",".join(map(str, sorted(self.truth.lines)))
        name = "/".join(self.file.parts[-2:])
        told = self.error or found or "nothing"
        return f"{state:<12}{self.seconds:6.2f} s  {name}  wanted {wanted}:{lines}  found {told}"

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain data."""
        return {
            "program": "/".join(self.file.parts[-2:]),
            "codes": sorted(self.truth.codes),
            "lines": sorted(self.truth.lines),
            "found": [list(each) for each in self.found],
            "messages": list(self.messages),
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "right": self.right,
        }


def truth_of(file: Path) -> Truth:
    """Read the truth out of a program's comments."""
    codes: set[str] = set()
    lines: set[int] = set()
    also: set[str] = set()
    for number, text in enumerate(file.read_text().splitlines(), start=1):
        fault, more = _FAULT.search(text), _ALSO.search(text)
        if fault is not None:
            codes.update(fault.group(1).split("|"))
            lines.add(number)
        if more is not None:
            also.update(re.split(r"[|, ]+", more.group(1).strip()))
    return Truth(frozenset(codes), frozenset(lines), frozenset(also - {""}))


def judge(file: Path, select: Sequence[str] = ()) -> Verdict:
    """Check one program as the command line does, and compare with its truth."""
    import torch

    from attnscope.checks.entry import check
    from attnscope.targets import importing_from, resolve

    torch.set_num_threads(1)
    torch.manual_seed(0)  # not all programs set a seed themselves
    truth = truth_of(file)
    began = time.perf_counter()
    try:
        target = resolve(str(file))
        with importing_from(target.folder):
            report = check(
                target.model,
                target.inputs,
                expect=target.expect,
                select=select,
                name=target.name,
                maker=target.maker,
            )
    except Exception as error:  # noqa: BLE001  whatever it is, it is a verdict
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        return Verdict(file, truth, seconds=time.perf_counter() - began, error=text)
    broken = [f"{each.code}: {each.reason}" for each in report.rules_skipped if each.failed]
    found = tuple((f.code, f.severity, _line(f.source, file)) for f in report.findings)
    messages = tuple(f"{f.code} {f.message}" for f in report.findings)
    seconds = time.perf_counter() - began
    return Verdict(file, truth, found, seconds, "; ".join(broken), messages)


def _line(source: Source | None, file: Path) -> int:
    """Return the line of a finding in a program; 0: it has none there."""
    here = source is not None and Path(source.file).resolve() == file.resolve()
    return source.line if source is not None and here else 0


def summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the figures: recall, precision, right code, right line, seconds."""
    faulty = [v for v in verdicts if v.truth.faulty]
    sound = [v for v in verdicts if not v.truth.faulty]
    quiet = [v for v in sound if not v.alarms and not v.error]
    alarmed = len(sound) - len(quiet)
    detected = sum(v.detected for v in faulty)
    yield f"{len(faulty)} faulty, {len(sound)} sound"
    if faulty:
        yield _share("recall (called faulty)", detected, len(faulty))
        yield _share("right code", sum(v.named for v in faulty), len(faulty))
        yield _share("right code at a right line", sum(v.placed for v in faulty), len(faulty))
        yield _share("without a further alarm", sum(not v.alarms for v in faulty), len(faulty))
        yield _share("precision", detected, detected + alarmed)
    if sound:
        yield _share("sound ones without error or warning", len(quiet), len(sound))
    times = sorted(v.seconds for v in verdicts)
    if times:
        yield f"seconds: median {median(times):.2f}, largest {times[-1]:.2f}"


RECALL, LINES = 0.95, 0.90
"""What a check has to reach: faulty programs called faulty; a right code at a right line."""


def reached(verdicts: Sequence[Verdict]) -> bool:
    """Return whether the figures are what they have to be, and every sound program is quiet."""
    faulty = [v for v in verdicts if v.truth.faulty]
    least = max(len(faulty), 1)
    recall = sum(v.detected for v in faulty) / least if faulty else 1.0
    lines = sum(v.placed for v in faulty) / least if faulty else 1.0
    quiet = not any(v.alarms or v.error for v in verdicts if not v.truth.faulty)
    return quiet and recall >= RECALL and lines >= LINES


def _share(name: str, part: int, whole: int) -> str:
    return f"{name}: {part} of {whole} = {part / max(whole, 1):.3f}"
