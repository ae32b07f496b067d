"""The page and the file with the results."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

import attnscope
from benchmarks.costing.row import CaseResult, Row, Spread

_SCHEMA = "attnscope.cost/1"
_MEBI = 1 << 20

_HEAD = """# What watching costs

Written by `make bench` on {machine}, PyTorch with {threads} ({versions}).

Each row is one forward pass of a trained model: `no_grad`, float32, eval mode. *plain* is the model
as transformers loads it, with fused attention (SDPA); *eager* the same with attention written out,
which every row of another program needs, since fused attention makes no weights that could be read.

- **time**: median of the rounds, and between which quartiles. In a round every variant runs once,
  one after the other in changing order, after {warm_ups}. Letting go of what was recorded counts.
- **ratio**: to plain in the same round; median and quartiles. attnscope runs in the same process as
  plain, on the same model object. Each other program has a process of its own, since some patch
  PyTorch or the model for good. The row *control* is plain in such a process: its distance from 1
  is what two processes differ by, and what the presence of attnscope does to a plain run.
- **peak**: most bytes of tensors alive at once above what was there before the run, and **kept**:
  those alive when the run is over and its result is held (for plain, the output). Counted from the
  allocations that PyTorch's profiler reports, in a run that is not timed, in a process of its own.
  These numbers are exact, and the same in each run.
- **process**: by how much the run raised the resident memory of that process at most, as Linux
  counts it, Python objects and the scratch space of libraries included; the allocator of C is told
  to return what is freed. It varies by some MiB, and is lower than *peak* where a run fills pages
  that an earlier one left behind.
- **patterns**: how many weights (batch, heads, queries, keys) the variant gives, and their largest
  distance from those of `output_attentions=True`. Of fused attention attnscope derives them from
  q, k and v when they are asked for: that is after the run, and not within its time or peak.

TransformerLens takes no bare BERT encoder; MiniLM is given to it with a head that predicts a single
word, which costs next to nothing.
"""


def write(folder: Path, results: Sequence[CaseResult], threads: int) -> None:
    """Write cost.md and cost.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    versions = _versions(results)
    page = [_head(threads, versions), *(_section(result) for result in results), _targets(results)]
    (folder / "cost.md").write_text("\n".join(page), encoding="utf-8")
    data = {
        "schema": _SCHEMA,
        "machine": _machine(),
        "threads": threads,
        "versions": versions,
        "cases": [_case(result) for result in results],
        "targets": [
            {"case": one.case, "target": one.text, "found": one.found, "met": one.met}
            for result in results
            for one in result.targets()
        ],
    }
    text = json.dumps(data, indent=1, ensure_ascii=False)
    (folder / "cost.json").write_text(f"{text}\n", encoding="utf-8")


def _head(threads: int, versions: dict[str, str]) -> str:
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    count = "one thread" if threads == 1 else f"{threads} threads"
    return _HEAD.format(machine=_machine(), threads=count, versions=named, warm_ups="two warm-ups")


def _machine() -> str:
    """Return the processor and the number of cores, as the system names them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def _versions(results: Iterable[CaseResult]) -> dict[str, str]:
    packages = {row.variant.package for result in results for row in result.rows} - {""}
    versions = {"attnscope": attnscope.__version__}
    for name in ("torch", "transformers", *sorted(packages)):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _section(result: CaseResult) -> str:
    case = result.case
    columns = ("tool", "variant", "time", "ratio", "peak", "kept", "process", "patterns")
    lines = [
        f"## {case.name}, batch {case.batch}, length {case.length}\n",
        f"{result.rounds} rounds.\n",
        _cells(*columns),
        _cells("---", "---", *("---:" for _ in columns[2:])),
        *(_line(row) for row in result.rows),
    ]
    failed = [row for row in result.rows if row.error]
    if failed:
        lines.append("\nNot measured:\n")
        lines += [f"- {row.variant.tool}, {row.variant.name}: {row.error}" for row in failed]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    tool, name = row.variant.tool, row.variant.name
    if row.error:
        return _cells(tool, name, "not measured", *("–" for _ in range(5)))
    memory = row.found.memory
    return _cells(
        tool,
        name,
        _spread(row.seconds, 3, " s"),
        _spread(row.ratio, 2, "×"),
        _mebi(memory.peak if memory else None),
        _mebi(memory.kept if memory else None),
        _mebi(memory.process if memory else None),
        _patterns(row),
    )


def _spread(spread: Spread | None, digits: int, unit: str) -> str:
    if spread is None:
        return "–"
    quartiles = f"{spread.lower:.{digits}f} to {spread.upper:.{digits}f}"
    return f"{spread.median:.{digits}f}{unit} ({quartiles})"


def _mebi(count: int | None) -> str:
    return "–" if count is None else f"{count / _MEBI:.1f} MiB"


def _patterns(row: Row) -> str:
    if row.found.patterns is None or row.found.difference is None:
        return "none"
    off = row.found.difference
    return f"{row.found.patterns}, {'equal' if off == 0.0 else f'off by {off:.0e}'}"


def _targets(results: Iterable[CaseResult]) -> str:
    lines = ["## Targets\n", _cells("model", "target", "found", ""), _cells(*["---"] * 4)]
    for result in results:
        lines += [
            _cells(one.case, one.text, one.found, "met" if one.met else "**missed**")
            for one in result.targets()
        ]
    return "\n".join(lines) + "\n"


def _case(result: CaseResult) -> dict[str, object]:
    case = result.case
    return {
        "model": case.name,
        "sample": case.sample,
        "batch": case.batch,
        "length": case.length,
        "rounds": result.rounds,
        "rows": [row.to_json() for row in result.rows],
    }


def _cells(*cells: object) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
