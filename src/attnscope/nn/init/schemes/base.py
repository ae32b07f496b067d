"""What a scheme of initial values is: a standard deviation by place, and how to draw with it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.init.roles import Place
from attnscope.reference.given import number

__all__ = ["TABLES", "Distribution", "Scheme", "from_zero", "scheme_given"]

Distribution: TypeAlias = Literal["uniform", "normal"]

TABLES = frozenset({"embedding", "positions"})


@dataclass(frozen=True, slots=True)
class Scheme(ABC):
    """One way to draw initial weights.

    A scheme of one's own is a subclass that says its `name`, `formula`, `source`, `kind` and `std`.

    name: what reports call it; formula: of the std; source: paper or code; kind: the distribution.
    """

    name: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str]
    kind: ClassVar[Distribution]

    @abstractmethod
    def std(self, place: Place) -> float:
        """Return the standard deviation that the scheme gives a weight in `place`."""

    def label(self, place: Place) -> str:  # noqa: ARG002  some schemes ask
        """Return what a report calls the scheme in `place`."""
        return self.name

    def distribution(self, place: Place) -> Distribution:  # noqa: ARG002  some schemes ask
        """Return the distribution that a weight in `place` is drawn from."""
        return self.kind

    def bias_bound(self, place: Place) -> float:  # noqa: ARG002  some schemes ask
        """Return b of the ``U(±b)`` that the bias beside the weight is drawn from; 0.0: zeros."""
        return 0.0

    @torch.no_grad()
    def draw_(
        self, weight: Tensor, place: Place, generator: torch.Generator | None = None
    ) -> Tensor:
        """Fill `weight` in place and return it."""
        std = self.std(place)
        if self.distribution(place) == "normal":
            return weight.normal_(0.0, std, generator=generator)
        bound = math.sqrt(3) * std  # the std of U(±b) is b/√3
        return weight.uniform_(-bound, bound, generator=generator)


def from_zero(scheme: Scheme, **parameters: object) -> None:
    """Raise InputError where a parameter of a scheme is not a finite number from 0 on."""
    for name, value in parameters.items():
        number(f"setting up the scheme {scheme.name}", name, value, least=0)


def scheme_given(doing: str, scheme: object) -> None:
    """Raise InputError where a scheme is named, or given as a class, and not as an object."""
    if isinstance(scheme, Scheme):
        return
    found = scheme.__name__ if isinstance(scheme, type) else f"{scheme!r:.60}"
    raise InputError(
        doing,
        f"the scheme is {'the class ' if isinstance(scheme, type) else ''}{found}",
        "give a scheme as an object, such as init.XavierUniform() or init.Normal(0.02)",
    )
