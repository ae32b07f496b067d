"""A named transformation, and an explanation: one that was applied and made the stage agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

__all__ = ["Change", "Explanation"]


@dataclass(frozen=True, slots=True)
class Change:
    """One way in which a candidate may differ from its reference.

    key: its kind, such as "scale"; text: what the candidate does, and what the reference does, in
    numbers ("scores times 0.125 = 1/√d_model where the reference has 0.25 = 1/√head_dim").
    make: computes the stage of the candidate from the reference, or that of the reference from the
    candidate (`mends`), float64, in the canonical layout of the stage.
    mends: `make` returns what the reference has, from the candidate's side.
    """

    key: str
    text: str
    make: Callable[[], Tensor]
    mends: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """A change that was applied and made the stage agree.

    remains: largest difference that is left, relative to the largest entry of the stage.
    """

    key: str
    text: str
    remains: float

    def to_json(self) -> dict[str, Any]:
        """Return the fields, as the JSON formats carry them."""
        return {"key": self.key, "text": self.text, "remains": self.remains}
