"""What an audit found, as frozen data, and as plain aligned text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attnscope.nn.init.finding import FoundBy, Side
from attnscope.nn.init.limits import Verdict
from attnscope.nn.init.sharpness import Sharpness

__all__ = ["Audit", "CallAudit", "Projection"]

SCHEMA = "attnscope.init-audit/1"


@dataclass(frozen=True, slots=True)
class Projection:
    """One projection of one call, and the scheme behind it.

    side: q, k, v or o; name: path of the parameter, of which `fan_out` rows are this side's;
    found_by: how it was found; std: of its entries; scheme: the scheme it is judged by, given or
    inferred; expected: std under that scheme; fits: whether `scheme` could have drawn it;
    candidates: all schemes that could have.
    """

    side: Side
    name: str
    found_by: FoundBy
    fan_in: int
    fan_out: int
    drawn_fan_out: int
    std: float
    scheme: str | None
    expected: float | None
    fits: bool
    candidates: tuple[str, ...]

    @property
    def packed(self) -> bool:
        """Whether other projections were drawn in the same tensor."""
        return self.drawn_fan_out != self.fan_out


@dataclass(frozen=True, slots=True)
class CallAudit:
    """One attention call: its projections, how sharp it is, what it does to its input.

    input_std: of what enters the q projection; output_std: of what leaves the output projection;
    verdict: of `content_share` between `sharpness.entropy.low` and `high`, unless heads are
    saturated (see `limits.verdict_of`); near: the verdict beyond a limit that is close;
    saturated_heads, uniform_heads: how many heads are by themselves; notes: what could not be
    found, and why.
    """

    index: int
    module: str
    heads: int
    head_dim: int
    projections: tuple[Projection, ...]
    sharpness: Sharpness
    input_std: float | None
    output_std: float | None
    verdict: Verdict
    near: Verdict | None
    saturated_heads: int
    uniform_heads: int
    notes: tuple[str, ...]

    @property
    def entropy_share(self) -> float | None:
        """Entropy / log n of the weights, mean over the heads; 1 = uniform."""
        entropy = self.sharpness.entropy
        return _mean(entropy.shares) if entropy is not None else None

    @property
    def content_share(self) -> float | None:
        """The same without the bias on the scores."""
        entropy = self.sharpness.entropy
        return _mean(entropy.content) if entropy is not None else None

    @property
    def ratio(self) -> float | None:
        """Output std over input std; None where one of them was not found."""
        if not self.input_std or self.output_std is None:
            return None
        return self.output_std / self.input_std

    def __getitem__(self, side: str) -> Projection:
        """Return the first projection of a side; KeyError where none was found."""
        for projection in self.projections:
            if projection.side == side:
                return projection
        raise KeyError(side)

    def to_json(self) -> dict[str, Any]:
        """Return all fields and derived numbers."""
        derived = {
            "entropy_share": self.entropy_share,
            "content_share": self.content_share,
            "ratio": self.ratio,
        }
        return _plain({**asdict(self), **derived})  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Audit:
    """The attention of a model as it starts, call by call.

    scheme: the one that was given, else None: inferred for each projection; unseen: regions that
    could hold attention and could not be looked into, each with why.
    """

    calls: tuple[CallAudit, ...]
    scheme: str | None
    unseen: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all calls: saturated, then mixed, unknown, uniform, sane."""
        order: tuple[Verdict, ...] = ("saturated", "mixed", "unknown", "uniform", "sane")
        found = {call.verdict for call in self.calls}
        return next((one for one in order if one in found), "unknown")

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.calls)

    def __getitem__(self, index: int) -> CallAudit:
        """Return one call."""
        return self.calls[index]

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "schema": SCHEMA,
            "scheme": self.scheme,
            "verdict": self.verdict,
            "calls": [call.to_json() for call in self.calls],
            "unseen": list(self.unseen),
        }

    def __str__(self) -> str:
        """Return a table of the projections, one of the calls, and what could not be found."""
        parts = [_projections(self.calls), "", _calls(self.calls)]
        notes = [
            f"{call.index} {call.module}: {note}" for call in self.calls for note in call.notes
        ]
        notes += [f"not looked into: {one}" for one in self.unseen]
        return "\n".join([*parts, *([""] if notes else []), *notes])


def _projections(calls: Iterable[CallAudit]) -> str:
    head = ("#", "projection", "side", "fan_in", "fan_out", "std", "expected", "scheme")
    rows = [
        (
            str(call.index),
            one.name,
            one.side,
            str(one.fan_in),
            f"{one.fan_out} of {one.drawn_fan_out}" if one.packed else str(one.fan_out),
            _number(one.std),
            _number(one.expected),
            _scheme(one),
        )
        for call in calls
        for one in call.projections
    ]
    return _aligned([head, *rows], left={1, 2, 7})


def _scheme(one: Projection) -> str:
    if one.scheme is None:
        return "none known"
    return one.scheme if one.fits else f"not {one.scheme}"


def _calls(calls: Iterable[CallAudit]) -> str:
    head = ("#", "module", "q", "k", "q·k", "scores", "keys", "entropy", "sane", "out/in", "starts")
    rows = [
        (
            str(call.index),
            call.module,
            _number(call.sharpness.q),
            _number(call.sharpness.k),
            _number(call.sharpness.raw_scores),
            _number(call.sharpness.scores),
            _number(call.sharpness.keys),
            _number(call.entropy_share),
            _limits(call),
            _number(call.ratio),
            _start(call),
        )
        for call in calls
    ]
    return _aligned([head, *rows], left={1, 10})


def _limits(call: CallAudit) -> str:
    """Return between which shares of the entropy rows of these lengths are sane."""
    entropy = call.sharpness.entropy
    return "-" if entropy is None else f"{entropy.low:.3f}-{entropy.high:.3f}"


def _start(call: CallAudit) -> str:
    """Return the verdict, and which heads or which close limit speak against it."""
    counts = {"saturated": call.saturated_heads, "uniform": call.uniform_heads}
    others = [(name, n) for name, n in counts.items() if n and name != call.verdict]
    if call.saturated_heads and others:
        told = ", ".join(f"{n} {name}" for name, n in others)
        return f"{call.verdict} ({told.replace(' ', f' of {call.heads} heads ', 1)})"
    if call.near is not None and not call.saturated_heads:
        return f"{call.verdict}, near {call.near}"
    return call.verdict


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.3g}"


def _aligned(rows: Sequence[Sequence[str]], left: set[int]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _plain(value: Any) -> Any:
    """Return JSON values: tuples as lists, NaN and infinity as null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
