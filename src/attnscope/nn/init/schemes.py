"""The initial values that people argue about, each with its formula and the spread to expect.

A scheme is an object that knows one number: the standard deviation of a weight by its place. All
else follows: it can draw a weight (`init.apply`), and be recognised in one (`init.audit`).

=====================  =============================================================================
`TorchDefault`         ``U(±1/√fan_in)``, std ``1/√(3·fan_in)``: `nn.Linear` as it comes
`XavierUniform`        ``U(±√(6/(fan_in + fan_out)))``, std ``√(2/(fan_in + fan_out))``
`XavierNormal`         ``N(0, 2/(fan_in + fan_out))``
`KaimingUniform`       ``U(±√(6/fan_in))``, std ``√(2/fan_in)``
`KaimingNormal`        ``N(0, 2/fan_in)``
`Normal`               ``N(0, 0.02²)`` whatever the sizes: BERT, GPT-2
`ScaledResidual`       `Normal`, and ``0.02/√N`` for the N weights that write to the residual stream
`T5`                   queries ``(fan_in·head_dim)^-½``, all else ``fan_in^-½``; scores unscaled
`MuP`                  ``σ·√(base/fan_in)`` for hidden weights, ``σ·base/fan_in`` for the head
=====================  =============================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.init.roles import RESIDUAL, Place

__all__ = [
    "T5",
    "KaimingNormal",
    "KaimingUniform",
    "MuP",
    "Normal",
    "ScaledResidual",
    "Scheme",
    "TorchDefault",
    "XavierNormal",
    "XavierUniform",
]

Distribution: TypeAlias = Literal["uniform", "normal"]

_TABLES = frozenset({"embedding", "positions"})


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to draw initial weights.

    A scheme of one's own is a subclass that says its `name`, `formula`, `source`, `kind` and `std`.

    name: what reports call it; formula: of the std; source: paper or code; kind: the distribution.
    """

    name: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str]
    kind: ClassVar[Distribution]

    def std(self, place: Place) -> float:
        """Return the standard deviation that the scheme gives a weight in `place`."""
        raise NotImplementedError

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


@dataclass(frozen=True, slots=True)
class TorchDefault(Scheme):
    """``U(±1/√fan_in)``: std ``1/√(3·fan_in)``, as `nn.Linear` draws weights and biases.

    It is Kaiming-uniform with ``a = √5``, a value kept for compatibility. Tables are ``N(0, 1)``,
    as in `nn.Embedding`. `nn.MultiheadAttention` departs from it: its packed projection is
    `XavierUniform`, its biases are zero; only ``out_proj.weight`` is this.

    Source: torch.nn.Linear.reset_parameters.

    Example:
        >>> round(TorchDefault().std(Place("q", fan_in=512, fan_out=512)), 4)
        0.0255
    """

    name = "torch-default"
    formula = "1/√(3·fan_in)"
    source = "torch.nn.Linear.reset_parameters (kaiming_uniform_ with a=√5)"
    kind = "uniform"

    def std(self, place: Place) -> float:
        """Return ``1/√(3·fan_in)``; 1 for tables."""
        return 1.0 if place.role in _TABLES else 1 / math.sqrt(3 * place.fan_in)

    def distribution(self, place: Place) -> Distribution:
        """Return "normal" for tables."""
        return "normal" if place.role in _TABLES else "uniform"

    def bias_bound(self, place: Place) -> float:
        """Return ``1/√fan_in``."""
        return 1 / math.sqrt(place.fan_in)


@dataclass(frozen=True, slots=True)
class _Xavier(Scheme):
    """What both Xavier schemes share.

    gain: factor of the std; together: a third of a packed projection is drawn with the whole
    tensor's fan_out, as `xavier_uniform_(in_proj_weight)` does; False: as a matrix of its own.
    """

    gain: float = 1.0
    together: bool = True

    def label(self, place: Place) -> str:
        """Return the name, and that each part of a packed projection stands for itself."""
        apart = not self.together and place.rows != place.fan_out
        return f"{self.name}, apart" if apart else self.name

    def std(self, place: Place) -> float:
        """Return ``gain·√(2/(fan_in + fan_out))``."""
        fan_out = place.rows if self.together else place.fan_out
        return self.gain * math.sqrt(2 / (place.fan_in + fan_out))


class XavierUniform(_Xavier):
    """``U(±√(6/(fan_in + fan_out)))``: std ``√(2/(fan_in + fan_out))``.

    It keeps the variance of a linear layer's output and of its gradient near 1 on average. The
    packed ``in_proj_weight`` (3E, E) of `nn.MultiheadAttention` is drawn as one tensor, so its std
    is ``√(2/4E)``, and the scores of unit inputs have std 0.5 where three matrices of their own
    (``together=False``) give 1.

    Source: Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural
    networks", eq. 16. Elsewhere: glorot_uniform (Keras, JAX), xavier_uniform_ (torch).

    Example:
        >>> third = Place("q", fan_in=512, fan_out=512, drawn_fan_out=3 * 512)
        >>> round(XavierUniform().std(third), 5)
        0.03125
    """

    name = "xavier-uniform"
    formula = "√(2/(fan_in + fan_out))"
    source = "Glorot & Bengio 2010, eq. 16"
    kind = "uniform"


class XavierNormal(_Xavier):
    """``N(0, 2/(fan_in + fan_out))``.

    Source: Glorot & Bengio 2010, eq. 12. Elsewhere: glorot_normal, xavier_normal_.

    Example:
        >>> round(XavierNormal().std(Place("v", fan_in=64, fan_out=64)), 3)
        0.125
    """

    name = "xavier-normal"
    formula = "√(2/(fan_in + fan_out))"
    source = "Glorot & Bengio 2010, eq. 12"
    kind = "normal"


@dataclass(frozen=True, slots=True)
class _Kaiming(Scheme):
    """What both Kaiming schemes share; gain: √2 makes up for the half that a ReLU takes."""

    gain: float = math.sqrt(2)

    def std(self, place: Place) -> float:
        """Return ``gain/√fan_in``."""
        return self.gain / math.sqrt(place.fan_in)


class KaimingUniform(_Kaiming):
    """``U(±√(6/fan_in))``: std ``√(2/fan_in)``.

    Source: He et al. 2015, "Delving deep into rectifiers", eq. 10. Elsewhere: he_uniform,
    kaiming_uniform_ with a=0.

    Example:
        >>> round(KaimingUniform().std(Place("ff-in", fan_in=512, fan_out=2048)), 4)
        0.0625
    """

    name = "kaiming-uniform"
    formula = "√(2/fan_in)"
    source = "He et al. 2015, eq. 10"
    kind = "uniform"


class KaimingNormal(_Kaiming):
    """``N(0, 2/fan_in)``.

    The factor √2 is meant for what follows a ReLU. A projection to v has none behind it: unit
    inputs come out with std 1.41, not 1.

    Source: He et al. 2015, eq. 10. Elsewhere: he_normal, kaiming_normal_.

    Example:
        >>> place = Place("v", fan_in=512, fan_out=512)
        >>> round(KaimingNormal().std(place) * 512 ** 0.5, 2)  # std of v for unit inputs
        1.41
    """

    name = "kaiming-normal"
    formula = "√(2/fan_in)"
    source = "He et al. 2015, eq. 10"
    kind = "normal"


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

    def std(self, place: Place) -> float:
        """Return the std by role: tables sigma, head ``∝ 1/fan_in``, hidden ``∝ 1/√fan_in``."""
        if place.role in _TABLES:
            return self.sigma
        share = self.base / place.fan_in
        return self.sigma * (share if place.role == "head" else math.sqrt(share))


def _unknown(name: str, place: Place, what: str, field: str) -> InputError:
    return InputError(
        doing=f"working out the std of a weight ({place.role}) under {name}",
        found=f"{what} is not known",
        todo=f"give {field} in its Place" + (", or to init.apply" if field == "head_dim" else ""),
    )
