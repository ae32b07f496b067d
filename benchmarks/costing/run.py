"""The benchmark from beginning to end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.costing.case import CASES, Case, Setting
from benchmarks.costing.inspecting import inspect_all
from benchmarks.costing.report import write
from benchmarks.costing.row import CaseResult, Inspection, Row, Spread
from benchmarks.costing.timing import Times, time_all
from benchmarks.costing.variant import Variant
from benchmarks.costing.variants import PLAIN, VARIANTS


def run(folder: Path, only: Sequence[str], *, quick: bool, threads: int) -> int:
    """Measure, write the files and print how the targets stand; return 1 if one is missed.

    Args:
        folder: where cost.md and cost.json go.
        only: parts of the names of models, tools or variants; empty for all.
        quick: time few rounds.
        threads: of PyTorch.
    """
    start = time.monotonic()
    variants = _chosen(only)
    results: list[CaseResult] = []
    for case in _cases(only):
        rounds = case.quick if quick else case.rounds
        results.append(_case(case, variants, rounds, threads, _teller(case, start)))
        write(folder, results, threads)
    targets = [target for result in results for target in result.targets()]
    for target in targets:
        print(f"{'met' if target.met else 'MISSED'}: {target.case}: {target.text} ({target.found})")
    print(f"wrote {folder / 'cost.md'} and {folder / 'cost.json'}", file=sys.stderr)
    return 0 if all(target.met for target in targets) else 1


def _cases(only: Sequence[str]) -> list[Case]:
    named = [case for case in CASES if any(word.lower() in case.name.lower() for word in only)]
    return named or list(CASES)


def _chosen(only: Sequence[str]) -> list[Variant]:
    """Return the variants that are named, with what they are compared with."""
    named = [one for one in VARIANTS if one.matches(only)]
    return [one for one in VARIANTS if one is PLAIN or not named or one in named]


def _case(
    case: Case,
    variants: Sequence[Variant],
    rounds: int,
    threads: int,
    tell: Callable[[str], None],
) -> CaseResult:
    missing = _missing(variants)
    present = [variant for variant in variants if variant.name not in missing]
    tell("loading")
    Setting(case).model("sdpa")  # a sample that has to be unpacked first is unpacked once
    found = inspect_all(case.name, present, threads, tell)
    works = [variant for variant in present if not found[variant.name].error]
    times = time_all(case.name, works, rounds, threads, tell)
    rows = [_row(variant, missing, times, found) for variant in variants]
    return CaseResult(case, rounds, rows)


def _teller(case: Case, start: float) -> Callable[[str], None]:
    def tell(text: str) -> None:
        seconds = time.monotonic() - start
        print(f"[{seconds:5.0f} s] {case.name}: {text}", file=sys.stderr, flush=True)

    return tell


def _missing(variants: Sequence[Variant]) -> dict[str, str]:
    """Return why variants can't be tried: their package could not be installed."""
    reasons: dict[str, str] = {}
    for variant in variants:
        try:
            metadata.version(variant.package or "torch")
        except metadata.PackageNotFoundError:
            reasons[variant.name] = f"the package {variant.package} is not installed"
    return reasons


def _row(
    variant: Variant, missing: dict[str, str], times: Times, found: dict[str, Inspection]
) -> Row:
    inspection = found.get(variant.name, Inspection())
    error = missing.get(variant.name) or inspection.error or times.errors.get(variant.name, "")
    seconds, plain = times.seconds.get(variant.name), times.seconds.get(PLAIN.name)
    return Row(
        variant,
        Spread.of(seconds) if seconds else None,
        Spread.of([a / b for a, b in zip(seconds, plain, strict=True)])
        if seconds and plain
        else None,
        inspection,
        error,
    )
