"""How fast the pairs of a rotary embedding turn, and whether the table has kept its precision."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.positions.rounding import bases_of, lost_by_rounding, speeds_of
from attnscope.checks.positions.sinusoids import TableFault
from attnscope.checks.positions.turning import Turning, turnings
from attnscope.checks.subject.subject import Subject

__all__ = ["bad_frequencies", "rotary_table_faults"]

_EARLY = 16
"""Places that are nearly exact in every floating type."""

_ALIKE = 1e-5
_NO_FREQUENCY = 1e3
_NAME = re.compile(r"(^|\.)inv_freqs?$")


def rotary_table_faults(subject: Subject) -> Iterator[tuple[Turning, TableFault, Operation]]:
    """Iterate over the tables of cosines and sines that are wrong by themselves."""
    seen: set[tuple[int, int]] = set()
    for q, k in turnings(subject):
        for turning in (q, k):
            for pair in turning.pairs:
                tables = (pair[0].value, pair[1].value)
                turns = turning.complex_of(pair) if tables not in seen else None
                seen.add(tables)
                if turns is None or len(turns) < 3 or not turning.along(pair[0], turning.length):
                    continue
                fault = _one_frequency(turns) or _precision(subject, turns)
                if fault is not None:
                    yield turning, fault, pair[0].operation


def _one_frequency(turns: Tensor) -> TableFault | None:
    speeds = (turns[1] * turns[0].conj()).angle()
    features = turns.shape[1]
    if (
        features < 4
        or float((speeds - speeds[0]).abs().max()) > _ALIKE
        or abs(float(speeds[0])) < _ALIKE
    ):
        return None
    return TableFault(
        "one frequency",
        f"all {features} columns turn by the same angle ({float(speeds[0]):.3g}) from each "
        "position to the next: the exponents of the base are all equal",
        1.0,
        (1, 0),
    )


def _precision(subject: Subject, turns: Tensor) -> TableFault | None:
    if len(turns) <= _EARLY:
        return None
    lost = lost_by_rounding(turns, speeds_of(bases_of(subject), turns.shape[1]))
    if lost is None:
        return None
    return TableFault(
        "precision",
        f"the rotary table lost its precision: {' and '.join(lost.parts)} were rounded to "
        f"{str(lost.dtype).removeprefix('torch.')}, and at position {lost.at[0]}, column "
        f"{lost.at[1]} its cosine is {lost.found:.2f} where float64 gives {lost.exact:.2f}",
        lost.error,
        lost.at,
    )


def bad_frequencies(subject: Subject) -> Iterator[tuple[str, str, Operation | None]]:
    """Iterate over inverse frequencies that were never filled, with what reads them."""
    if subject.model is None:
        return
    tape, names = subject.base.tape, subject.base.parameters
    users = {name: tape.users.get(value, []) for value, name in names.items()}
    for name, buffer in subject.model.named_buffers():
        if not _NAME.search(name) or not buffer.is_floating_point() or buffer.numel() < 2:
            continue
        reading = users.get(name, [])
        if not reading:
            continue
        shown = ", ".join(f"{float(x):.3g}" for x in buffer.flatten()[:4])
        if (
            not bool(buffer.isfinite().all())
            or bool((buffer < 0).any())
            or float(buffer.max()) > _NO_FREQUENCY
        ):
            yield (
                name,
                f"{name} holds [{shown}, …], which are no frequencies: it was never filled",
                reading[0],
            )
        elif not bool(buffer.any()):
            yield (
                name,
                f"{name} holds zeros alone, where it starts at 1 and falls: it was never filled",
                reading[0],
            )
