"""How fast the pairs of a rotary embedding turn, and whether the table has kept its precision."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.positions.sinusoids import TableFault
from attnscope.checks.positions.turning import Turning, turnings
from attnscope.checks.subject.subject import Subject

__all__ = ["bad_frequencies", "rotary_table_faults"]

_BASES = (1e4, 5e5, 1e6)
_WRONG = 0.05
_EARLY = 16
_ALIKE = 1e-5
_NO_FREQUENCY = 1e3
_NAME = re.compile(r"(^|\.)inv_freqs?$")


def rotary_table_faults(subject: Subject) -> Iterator[tuple[Turning, TableFault, Operation]]:
    """Iterate over the tables of cosines and sines that are wrong by themselves."""
    for q, k in turnings(subject):
        for turning in (q, k):
            for pair in turning.pairs:
                turns = turning.complex_of(pair)
                if turns is None or len(turns) < 3 or not turning.along(pair[0], turning.length):
                    continue
                fault = _one_frequency(turns) or _precision(subject, turns, pair[0].table.dtype)
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


def _precision(subject: Subject, turns: Tensor, dtype: torch.dtype) -> TableFault | None:
    if dtype not in {torch.float16, torch.bfloat16, torch.complex32} or len(turns) <= _EARLY:
        return None
    at = torch.arange(len(turns), dtype=torch.float64)[:, None]
    for speeds in _usual(subject, turns.shape[1]):
        exact = torch.polar(torch.ones_like(at * speeds), at * speeds)
        off = (turns - exact).abs()
        if float(off[:_EARLY].max()) > _WRONG or float(off.max()) <= _WRONG:
            continue
        place = divmod(int(off.argmax()), turns.shape[1])
        return TableFault(
            "precision",
            f"the rotary table lost its precision in {str(dtype).removeprefix('torch.')}: at "
            f"position {place[0]}, column {place[1]} its cosine is {float(turns[place].real):.2f} "
            f"where float64 gives {float(exact[place].real):.2f}",
            float(off.max()),
            place,
        )
    return None


def _usual(subject: Subject, features: int) -> Iterator[Tensor]:
    """Iterate over the angles a position of all columns, for usual bases and layouts."""
    configured = getattr(subject.config, "rope_theta", None)
    bases = [*([float(configured)] if isinstance(configured, int | float) else []), *_BASES]
    for base in bases:
        for pairs, repeat in ((features, ""), (features // 2, "cat"), (features // 2, "each")):
            if pairs < 1:
                continue
            speeds = base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
            if repeat and features % 2 == 0:
                speeds = (
                    torch.cat((speeds, speeds)) if repeat == "cat" else speeds.repeat_interleave(2)
                )
            if len(speeds) == features:
                yield speeds


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
