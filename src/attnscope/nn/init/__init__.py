"""Initial values: the schemes, drawing by them, and an audit of how attention starts.

from attnscope.nn import init

init.apply(model, init.ScaledResidual())
print(init.audit(model, tokens))
"""

from attnscope.nn.init.applying import Drawn, apply
from attnscope.nn.init.auditing import audit
from attnscope.nn.init.limits import critical_std, expected_share, saturated_below, uniform_above
from attnscope.nn.init.result import Audit, CallAudit, Projection
from attnscope.nn.init.roles import Place, Role, role_of
from attnscope.nn.init.schemes import (
    T5,
    KaimingNormal,
    KaimingUniform,
    MuP,
    Normal,
    ScaledResidual,
    Scheme,
    TorchDefault,
    XavierNormal,
    XavierUniform,
)

__all__ = [
    "T5",
    "Audit",
    "CallAudit",
    "Drawn",
    "KaimingNormal",
    "KaimingUniform",
    "MuP",
    "Normal",
    "Place",
    "Projection",
    "Role",
    "ScaledResidual",
    "Scheme",
    "TorchDefault",
    "XavierNormal",
    "XavierUniform",
    "apply",
    "audit",
    "critical_std",
    "expected_share",
    "role_of",
    "saturated_below",
    "uniform_above",
]
