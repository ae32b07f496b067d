"""Taking out of a report what is silenced, and telling what silences nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attnscope.checks.finding import Finding
from attnscope.checks.fingerprint import fingerprint
from attnscope.checks.formats.wording import is_place, short_path
from attnscope.checks.report import Report, SkippedRule, Suppressed
from attnscope.checks.silencing.baseline import Baseline, read_baseline
from attnscope.checks.silencing.comments import Comment, comments_of, file_of
from attnscope.checks.silencing.settings import Settings
from attnscope.checks.silencing.taking_part import Stretch, stretches

__all__ = ["silence"]


def silence(report: Report, settings: Settings, folder: Path, *, model: Any = None) -> Report:
    """Return a report without the findings that are silenced; they are in `suppressed` instead.

    Findings folded under one that is silenced go with it. Comments that can't be used or silence
    nothing, and what is gone of the baseline, are told in `notes`.

    Args:
        report: of a check that ran the rules which `settings` leaves.
        settings: of the project, and of the command line.
        folder: from which the target was named.
        model: what was checked; in the code of its modules' classes comments are looked for that
            silence nothing. None: they aren't looked for.

    Raises:
        InputError: the baseline can't be read.
    """
    silencer = _Silencer(settings)
    if settings.baseline is not None:
        silencer.baseline = read_baseline(settings.baseline, report.target, folder)
    kept = tuple(left for each in report.findings if (left := silencer.judge(each)) is not None)
    ran = set(report.rules_run) - {each.code for each in report.rules_skipped}
    notes = dict.fromkeys((*silencer.notes(ran, stretches(model)), *report.notes))
    return replace(
        report,
        findings=kept,
        suppressed=(*report.suppressed, *silencer.silenced),
        rules_skipped=(*report.rules_skipped, *_ignored(report, settings)),
        notes=tuple(notes),
    )


@dataclass(slots=True)
class _Silencer:
    """Judges findings one by one, and remembers which comments and entries were of use.

    used: places of comments with the codes that they silenced; left: entries of the baseline that
    were not found again yet.
    """

    settings: Settings
    baseline: Baseline | None = None
    silenced: list[Suppressed] = field(default_factory=list)
    files: dict[str, tuple[Comment, ...]] = field(default_factory=dict)
    used: set[tuple[str, int, str]] = field(default_factory=set)
    met: Counter[str] = field(default_factory=Counter)

    def judge(self, finding: Finding) -> Finding | None:
        """Return what is left of a finding; None where it is silenced."""
        found = self._reason(finding)
        followers = [self._reason(each) for each in finding.follows]
        if found is not None:
            self.silenced.append(Suppressed(finding, *found))
            return None
        kept = []
        for each, reason in zip(finding.follows, followers, strict=True):
            if reason is None:
                kept.append(each)
            else:
                self.silenced.append(Suppressed(each, *reason))
        return replace(finding, follows=tuple(kept))

    def notes(self, ran: set[str], parts: Iterable[Stretch]) -> Iterator[str]:
        """Iterate over what is wrong with comments, and what of the baseline is gone.

        ran: codes of the rules that could look at everything; parts: lines that were checked.
        """
        checked = list(parts)
        for file in dict.fromkeys([*self.files, *(part.file for part in checked)]):
            for comment in self._comments(file):
                took_part = any(part.touches(comment) for part in checked)
                yield from self._of_comment(comment, ran if took_part else set())
        yield from self._gone(ran)
        if self.settings.unexplained:
            codes = ", ".join(self.settings.unexplained)
            yield (
                f"the project's settings ignore {codes} and give no reason: write "
                f'ignore = {{ {self.settings.unexplained[0]} = "why" }}'
            )

    def _reason(self, finding: Finding) -> tuple[str, str] | None:
        """Return what silences a finding and why, the nearest to the code first."""
        mark = fingerprint(finding)
        self.met[mark] += 1
        source = finding.source
        if source is not None and is_place(source):
            found = self._by_place(finding, file_of(source.file), source.line)
            if found is not None:
                return found
        if self.baseline is None or self.met[mark] > self.baseline.counts[mark]:
            return None
        return "baseline", f"in {short_path(str(self.baseline.file))}"

    def _by_place(self, finding: Finding, file: str, line: int) -> tuple[str, str] | None:
        """Return the comment, or the setting for a file, that silences a finding."""
        covering = [
            each
            for each in self._comments(file)
            if each.covers(file, line) and finding.code in each.codes
        ]
        self.used |= {(file, each.line, finding.code) for each in covering}
        if covering:
            return "comment", covering[-1].reason
        for files in self.settings.files:
            if finding.code in files.reasons and files.covers(file):
                return "settings", files.reasons[finding.code] or f"in {files.pattern}"
        return None

    def _comments(self, file: str) -> tuple[Comment, ...]:
        if file not in self.files:
            self.files[file] = comments_of(file)
        return self.files[file]

    def _of_comment(self, comment: Comment, ran: set[str]) -> Iterator[str]:
        """Iterate over what is to be told of one comment; ran: rules that could have needed it."""
        place = f"{short_path(comment.file)}:{comment.line}"
        for problem in comment.problems:
            yield f"{place}: this `attnscope: ignore` does not silence: {problem}"
        idle = [
            code
            for code in comment.codes
            if code in ran and (comment.file, comment.line, code) not in self.used
        ]
        if idle:
            words = f"attnscope: ignore[{', '.join(idle)}]"
            yield f"{place}: `{words}` silences nothing here; take it out"

    def _gone(self, ran: set[str]) -> Iterator[str]:
        """Iterate over entries of the baseline that no longer occur."""
        if self.baseline is None:
            return
        for mark, entry in self.baseline.entries.items():
            missing = self.baseline.counts[mark] - self.met[mark]
            if missing > 0 and entry["code"] in ran:
                where = entry.get("file") or entry.get("module") or "the model itself"
                yield (
                    f"{short_path(str(self.baseline.file))}: {entry['code']} {entry['name']} in "
                    f"{where} no longer occurs; write the baseline anew"
                )


def _ignored(report: Report, settings: Settings) -> Iterator[SkippedRule]:
    """Iterate over the rules that the settings leave out, where the report doesn't name them."""
    told = {*report.rules_run, *(each.code for each in report.rules_skipped)}
    for code, reason in sorted(settings.ignore.items()):
        if code not in told:
            yield SkippedRule(code, reason, ignored=True)
