"""Schemes that ask for the sizes of a weight alone: PyTorch's default, Xavier, Kaiming."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnscope.nn.init.roles import Place
from attnscope.nn.init.schemes.base import TABLES, Distribution, Scheme, from_zero
from attnscope.reference.given import flag

__all__ = [
    "KaimingNormal",
    "KaimingUniform",
    "TorchDefault",
    "XavierNormal",
    "XavierUniform",
]


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
        return 1.0 if place.role in TABLES else 1 / math.sqrt(3 * place.fan_in)

    def distribution(self, place: Place) -> Distribution:
        """Return "normal" for tables."""
        return "normal" if place.role in TABLES else "uniform"

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

    formula = "√(2/(fan_in + fan_out))"

    def __post_init__(self) -> None:
        from_zero(self, gain=self.gain)
        flag(f"setting up the scheme {self.name}", "together", self.together)

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
    source = "Glorot & Bengio 2010, eq. 12"
    kind = "normal"


@dataclass(frozen=True, slots=True)
class _Kaiming(Scheme):
    """What both Kaiming schemes share; gain: √2 makes up for the half that a ReLU takes."""

    gain: float = math.sqrt(2)

    formula = "√(2/fan_in)"
    source = "He et al. 2015, eq. 10"

    def __post_init__(self) -> None:
        from_zero(self, gain=self.gain)

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
    kind = "normal"
