"""What a test asks for, read before anything runs: pytest itself, rules, reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from attnscope.checks import rules as table
from attnscope.checks.rule import Rule
from attnscope.checks.selecting import matching, selected
from attnscope.checks.silencing import Settings, read_settings
from attnscope.errors import InputError, MissingExtraError

__all__ = ["Reasons", "need_pytest", "project_settings", "reasons_by_code", "wanted_rules"]

Reasons: TypeAlias = Mapping[str, str]
"""By code, beginning of a code or name: why something is found, and is not to be mended now."""


def project_settings(target: object, select: Iterable[str], ignore: Iterable[str]) -> Settings:
    """Return what the project says in `[tool.attnscope]`, with what a test says.

    The project is that of the file which a TARGET names, else that of the working directory.

    Raises:
        InputError: a word names no rule, or the project's settings can't be used.
    """
    picked, refused = list(select), list(ignore)
    selected(table.RULES, picked, refused)  # refuses words that name no rule
    file = Path(target.rpartition(":")[0] or target) if isinstance(target, str) else Path.cwd()
    found = read_settings(file if file.exists() else Path.cwd())
    return found.with_words(picked, refused)


def wanted_rules(settings: Settings, ignore: Iterable[str], doing: str) -> tuple[Rule, ...]:
    """Return the rules that are selected and that a test doesn't ignore, at least one.

    Those that the project ignores are among them: they are skipped, with the project's reason.

    Raises:
        InputError: none is left.
    """
    rules = selected(table.RULES, settings.select, ignore)
    if not rules:
        raise InputError(doing, "no rule is left to be run", "select more, or ignore fewer")
    return rules


def reasons_by_code(reasons: Reasons | None, doing: str) -> dict[str, str]:
    """Return reasons by the codes of their rules.

    Raises:
        InputError: there is no such rule, or a reason is empty.
    """
    made: dict[str, str] = {}
    for asked, reason in _pairs(reasons, doing):
        if not isinstance(reason, str) or not reason.strip():
            raise InputError(
                doing, f"{asked} has no reason", f"say why: {{{asked!r}: 'the reason'}}"
            )
        made |= dict.fromkeys(sorted(matching(table.RULES, [asked], doing)), reason.strip())
    return made


def _pairs(reasons: Reasons | None, doing: str) -> Iterable[tuple[str, object]]:
    if reasons is not None and not isinstance(reasons, Mapping):
        raise InputError(
            doing,
            f"reasons of type {type(reasons).__name__}",
            'give a dict from codes to reasons: {"AS203": "the first row is empty by design"}',
        )
    return (reasons or {}).items()


def need_pytest(doing: str) -> Any:
    """Return the module pytest.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pytest
    except ImportError as error:
        raise MissingExtraError(doing, "pytest", "pytest") from error
    return pytest
