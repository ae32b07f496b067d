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

Example:
    >>> from attnscope.nn import init
    >>> init.KaimingNormal().std(init.Place("v", fan_in=512, fan_out=512))
    0.0625
"""

from attnscope.nn.init.schemes.base import Scheme
from attnscope.nn.init.schemes.by_role import T5, MuP, Normal, ScaledResidual
from attnscope.nn.init.schemes.by_size import (
    KaimingNormal,
    KaimingUniform,
    TorchDefault,
    XavierNormal,
    XavierUniform,
)

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
