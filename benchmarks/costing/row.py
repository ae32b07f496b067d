"""What was measured of one variant, and the targets that attnscope has to meet."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.costing.case import Case
from benchmarks.costing.variant import Variant

MOST_TIME = 1.10


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of the rounds."""

    median: float
    lower: float
    upper: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of at least two values."""
        lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, lower, upper)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes above what was there before the run.

    peak: most bytes of tensors alive at once. kept: bytes of tensors alive when the run is over
    and its result is held. process: most resident memory of the process; None off Linux.
    """

    peak: int
    kept: int
    process: int | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found out about a variant in a process of its own, untimed.

    patterns: how many weights (batch, heads, queries, keys) it gave; difference: by how much they
        are off those of `output_attentions=True` at most; None where it gave none.
    largest: elements of the largest tensor that the recorded calls hold; None if not attnscope.
    """

    memory: Memory | None = None
    patterns: int | None = None
    difference: float | None = None
    largest: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One variant on one model."""

    variant: Variant
    seconds: Spread | None
    ratio: Spread | None
    found: Inspection
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data."""
        memory = self.found.memory
        return {
            "tool": self.variant.tool,
            "variant": self.variant.name,
            "seconds": asdict(self.seconds) if self.seconds else None,
            "ratio": asdict(self.ratio) if self.ratio else None,
            "peak_bytes": memory.peak if memory else None,
            "kept_bytes": memory.kept if memory else None,
            "process_peak_bytes": memory.process if memory else None,
            "patterns": self.found.patterns,
            "largest_difference": self.found.difference,
            "largest_kept_tensor": self.found.largest,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Target:
    """Something that has to hold, and the numbers that decide it."""

    case: str
    text: str
    found: str
    met: bool


@dataclass(frozen=True, slots=True)
class CaseResult:
    """All rows of one model. rounds: how often each variant was timed."""

    case: Case
    rounds: int
    rows: list[Row] = field(default_factory=list)

    def targets(self) -> list[Target]:
        """Return the targets whose rows were measured."""
        by_keep = {row.variant.keep: row for row in self.rows if row.variant.keep}
        plain = next((row for row in self.rows if row.variant.name == "plain"), None)
        found: list[Target] = []
        if "qkv" in by_keep:
            found += self._time(by_keep["qkv"])
            if plain is not None:
                found += self._memory(by_keep["qkv"], plain)
        if "numbers" in by_keep:
            found += self._numbers(by_keep["numbers"])
        return found

    def _time(self, row: Row) -> list[Target]:
        text = f'keep="qkv" takes at most {MOST_TIME:.2f} × plain'
        if row.ratio is None:
            return [Target(self.case.name, text, row.error, met=False)]
        found = f"{row.ratio.median:.3f} × plain"
        return [Target(self.case.name, text, found, row.ratio.median <= MOST_TIME)]

    def _memory(self, row: Row, plain: Row) -> list[Target]:
        text = 'keep="qkv" needs at most the peak of plain and the tensors that the trace keeps'
        own, base = row.found.memory, plain.found.memory
        if own is None or base is None:
            return [Target(self.case.name, text, row.error or plain.error, met=False)]
        allowed = base.peak + own.kept - base.kept
        found = f"{own.peak:,} bytes, at most {allowed:,}"
        return [Target(self.case.name, text, found, own.peak <= allowed)]

    def _numbers(self, row: Row) -> list[Target]:
        text = 'keep="numbers" keeps no queries × keys matrix'
        if row.found.largest is None:
            return [Target(self.case.name, text, row.error, met=False)]
        matrix = self.case.length**2
        found = f"largest tensor kept: {row.found.largest:,} elements; one matrix has {matrix:,}"
        return [Target(self.case.name, text, found, row.found.largest < matrix)]
