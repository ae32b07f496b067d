"""Schemes that ask what part a weight plays: one sigma for all but some, T5, muP."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnscope.errors import InputError
from attnscope.nn.init.roles import RESIDUAL, Place
from attnscope.nn.init.schemes.base import TABLES, Scheme, from_zero
from attnscope.reference.given import positive

__all__ = ["T5", "MuP", "Normal", "ScaledResidual"]


@dataclass(frozen=True, slots=True)
class Normal(Scheme):
    """``N(0, sigma²)`` whatever the sizes: `initializer_range` of BERT, GPT-2 and most after them.

    At width 512 it is close to `TorchDefault` (0.0255), at 4,096 nearly three times it (0.0072).

    Source: Radford et al. 2018, "Improving language understanding by generative pre-training",
    section 4.1; Devlin et al. 2018 in code.

    Example:
        >>> Normal().std(Place("q", fan_in=768, fan_out=768))
        0.02
    """

    sigma: float = 0.02

    name = "normal"
    formula = "sigma"
    source = "Radford et al. 2018, section 4.1 (sigma = 0.02)"
    kind = "normal"

    def __post_init__(self) -> None:
        from_zero(self, sigma=self.sigma)

    def std(self, place: Place) -> float:  # noqa: ARG002  that is the point
        """Return sigma."""
        return self.sigma


@dataclass(frozen=True, slots=True)
class ScaledResidual(Scheme):
    """`Normal`, and ``sigma/√N`` for the N weights that write to the residual stream.

    Each layer adds two terms, so N is twice the number of layers; the variance of the stream then
    doesn't grow with depth.

    Source: Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3.

    Example:
        >>> place = Place("o", fan_in=768, fan_out=768, residuals=24)
        >>> round(ScaledResidual().std(place), 5)
        0.00408
    """

    sigma: float = 0.02

    name = "scaled-residual"
    formula = "sigma; output projections sigma/√N, N residual terms"
    source = "Radford et al. 2019, section 2.3 (GPT-2)"
    kind = "normal"

    def __post_init__(self) -> None:
        from_zero(self, sigma=self.sigma)

    def std(self, place: Place) -> float:
        """Return sigma, for output projections ``sigma/√residuals``."""
        if place.role not in RESIDUAL:
            return self.sigma
        if not place.residuals:
            raise _unknown(
                self.name, place, "how many weights write to the residual stream", "residuals"
            )
        return self.sigma / math.sqrt(place.residuals)


@dataclass(frozen=True, slots=True)
class T5(Scheme):
    """``(fan_in·head_dim)^-½`` for q, ``fan_in^-½`` for all other matrices, 1 for embeddings.

    The scale 1/√head_dim is not in the scores, but in the initial queries. The head is drawn as
    embeddings are, with factor 1, and its input scaled by width^-½ where both are tied. Tables of
    relative positions follow the width of the model there, which a table can't know: give them
    their own values.

    Source: Raffel et al. 2020, "Exploring the limits of transfer learning", section 2.1; the
    numbers are those of its code (Mesh TensorFlow) and of transformers' `T5PreTrainedModel`.

    Example:
        >>> round(T5().std(Place("q", fan_in=512, fan_out=512, head_dim=64)), 5)
        0.00552
    """

    factor: float = 1.0

    name = "t5"
    formula = "q: (fan_in·head_dim)^-½; else fan_in^-½"
    source = "Raffel et al. 2020 (code)"
    kind = "normal"

    def __post_init__(self) -> None:
        from_zero(self, factor=self.factor)

    def std(self, place: Place) -> float:
        """Return ``factor·(fan_in·head_dim)^-½`` for q, ``factor·fan_in^-½`` else."""
        if place.role in {"embedding", "head"}:
            return self.factor
        if place.role == "qkv":
            raise InputError(
                doing=f"working out the std of a packed weight under {self.name}",
                found="q, k and v in one matrix, in an order that is not known",
                todo="draw them one by one, each with its role in a Place",
            )
        if place.role != "q":
            return self.factor / math.sqrt(place.fan_in)
        if not place.head_dim:
            raise _unknown(self.name, place, "the width of a head", "head_dim")
        return self.factor / math.sqrt(place.fan_in * place.head_dim)


@dataclass(frozen=True, slots=True)
class MuP(Scheme):
    """``sigma·√(base/fan_in)`` for hidden weights, ``sigma·base/fan_in`` for the head, sigma else.

    Maximal update parametrisation: with it (scores divided by head_dim instead of its root, and
    Adam's learning rate of hidden weights and head times ``base/fan_in``) the best learning rate
    stays the same at every width.

    base: the width at which sigma was chosen; there the scheme equals `Normal`.

    Source: Yang et al. 2022, "Tensor programs V", table 3 (initial variances ``1/fan_in`` for
    hidden weights, ``1/fan_in²`` for the output, constant in width for embeddings); definition 4.1
    for the scores.

    Example:
        >>> MuP(base=256).std(Place("k", fan_in=1024, fan_out=1024))
        0.01
    """

    base: int = 256
    sigma: float = 0.02

    name = "mup"
    formula = "sigma·√(base/fan_in); head sigma·base/fan_in"
    source = "Yang et al. 2022, table 3"
    kind = "normal"

    def __post_init__(self) -> None:
        from_zero(self, sigma=self.sigma)
        positive(f"setting up the scheme {self.name}", base=self.base)

    def std(self, place: Place) -> float:
        """Return the std by role: tables sigma, head ``∝ 1/fan_in``, hidden ``∝ 1/√fan_in``."""
        if place.role in TABLES:
            return self.sigma
        share = self.base / place.fan_in
        return self.sigma * (share if place.role == "head" else math.sqrt(share))


def _unknown(name: str, place: Place, what: str, field: str) -> InputError:
    return InputError(
        doing=f"working out the std of a weight ({place.role}) under {name}",
        found=f"{what} is not known",
        todo=f"give {field} in its Place" + (", or to init.apply" if field == "head_dim" else ""),
    )
