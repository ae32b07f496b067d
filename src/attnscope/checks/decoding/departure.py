"""That decoding with a cache departs from the full pass: in which way, and where first."""

from __future__ import annotations

from dataclasses import dataclass

from attnscope.checks.decoding.stepper import Stepper

__all__ = ["Departure"]


@dataclass(frozen=True, slots=True)
class Departure:
    """A way of decoding whose results are not those of the full pass.

    way: in words; ends: where its steps end; step: the first one that differs, from 0; position:
    the first token; largest: of all differences; limit: what there is rounding. stepper: None
    where no step is at fault but what an earlier request left behind.
    """

    way: str
    ends: tuple[int, ...]
    step: int
    position: int
    largest: float
    limit: float
    stepper: Stepper | None
