"""AS902: q and k, or what they are made of, receive no gradient, or one that isn't finite."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.residual.checkpointed import Lost
    from attnscope.checks.residual.cutting import Cut
    from attnscope.checks.residual.hooked import Hooked
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.residual.checkpointed import lost_in_checkpoints
    from attnscope.checks.residual.cutting import still_calls
    from attnscope.checks.residual.hooked import hooked_parameters
    from attnscope.checks.residual.numbers import left_parameters
    from attnscope.checks.residual.starved import dead_products

    lost = [*lost_in_checkpoints(subject)]
    yield from (_of_checkpoint(each) for each in lost)
    yield from _of_cuts(subject, {name for each in lost for name in each.parameters})
    for hooked in hooked_parameters(subject):
        yield _of_hook(hooked)
    for cut in left_parameters(subject):
        yield _of_left(cut)
    for cut in dead_products(subject):
        yield _of_dead(cut)
    for still in still_calls(subject):
        if still.finite:
            message = (
                "q and k are zero for every token, so that neither gives the other a gradient: "
                f"|dq| and |dk| are 0 where |dv| is {still.value_norm:.2g}; no step of training "
                "can move them"
            )
        else:
            message = (
                f"the gradient of {still.name} is not finite, although all outputs are: "
                f"{still.share:.0%} of its entries are NaN or infinite"
            )
        yield RULE.found(
            message,
            {"stage": still.name, "value_gradient": still.value_norm, "not_finite": still.share},
            source=still.source,
            call=still.call,
            fix=None if still.finite else _FIX_OF_NAN,
        )


def _of_cuts(subject: Subject, lost: Collection[str]) -> Iterator[Finding]:
    """Tell what cuts the way back: to q and k as a whole, else to single parameters not `lost`."""
    from attnscope.checks.residual.cutting import cut_calls
    from attnscope.checks.residual.starved import starved_parameters
    from attnscope.checks.residual.unseen_scores import cut_scores

    for cuts in (cut_calls, cut_scores, starved_parameters):
        make = _of_starved if cuts is starved_parameters else _of_cut
        found = [cut for cut in cuts(subject) if not lost or set(cut.parameters) - set(lost)]
        yield from (make(cut) for cut in found)
        if found:
            return


def _named(parameters: tuple[str, ...]) -> str:
    more = f" and {len(parameters) - 4} more" if len(parameters) > 4 else ""
    return ", ".join(parameters[:4]) + more


def _of_starved(cut: Cut) -> Finding:
    names = _named(cut.parameters)
    return RULE.found(
        f"{cut.operation} cuts the gradient: {names} decide what comes out, and get none, "
        f"where the largest one of the same attention is {cut.value_norm:.2g}",
        {
            "operation": cut.operation,
            "parameters": list(cut.parameters),
            "largest_gradient": cut.value_norm,
        },
        source=cut.source,
        module=cut.parameters[0].rpartition(".")[0].rpartition(".")[0],
    )


def _of_hook(found: Hooked) -> Finding:
    names = _named(found.parameters)
    return RULE.found(
        f"the backward hook {found.hook} hands on zeros: {names} get a gradient of exactly 0 "
        f"(up to {found.without:.2g} where it is left out)",
        {"hook": found.hook, "parameters": list(found.parameters), "without_it": found.without},
        source=found.source,
        module=found.parameters[0].rpartition(".")[0],
        fix=(
            "Return None from a hook that only looks, and the gradient itself from one that "
            "changes it; to freeze a part, say requires_grad_(False)."
        ),
    )


def _of_checkpoint(lost: Lost) -> Finding:
    names = _named(lost.parameters)
    part = (
        "; in a larger model, whose earlier layers learn, it would be right" if lost.a_part else ""
    )
    return RULE.found(
        f"checkpoint(use_reentrant=True) is given no tensor that needs a gradient: in train mode "
        f"{names} get none, without it up to {lost.without:.2g}{part}",
        {"parameters": list(lost.parameters), "without_it": lost.without},
        source=lost.source,
        module=lost.parameters[0].rpartition(".")[0],
        severity="note" if lost.a_part else "warning",
        fix=(
            "Say use_reentrant=False, or x.requires_grad_() (model.enable_input_require_grads()) "
            "before the first checkpoint."
        ),
    )


def _of_left(cut: Cut) -> Finding:
    names = _named(cut.parameters)
    return RULE.found(
        f"{names} leaves PyTorch as plain numbers (item, float, tolist, NumPy): with other values "
        "the output moves, and no gradient comes back, where the largest one of the same attention "
        f"is {cut.value_norm:.2g}",
        {"parameters": list(cut.parameters), "largest_gradient": cut.value_norm},
        source=cut.source,
        module=cut.parameters[0].rpartition(".")[0],
        fix="Compute with the tensor itself: keep .item(), float() and NumPy for logging.",
    )


def _of_dead(cut: Cut) -> Finding:
    one, other = cut.parameters
    return RULE.found(
        f"{one} and {other} are multiplied and both all zero, so that neither gives the other a "
        "gradient: both gradients are exactly 0, and no step of training can move them, where the "
        f"largest gradient of the run is {cut.value_norm:.2g}",
        {"parameters": [one, other], "largest_gradient": cut.value_norm},
        source=cut.source,
        module=one.rpartition(".")[0],
        fix="Start one of the two with random numbers, the other with zeros.",
    )


def _of_cut(cut: Cut) -> Finding:
    names = _named(cut.parameters)
    if cut.parts:
        where, rest = f"of {' and '.join(cut.parts)}", "q, k and v"
    else:
        where, rest = "between q·k and the context", "v"
    return RULE.found(
        f"{cut.operation} cuts the gradient {where}: {names} get nothing through it, where "
        f"the largest gradient of {rest} is {cut.value_norm:.2g}",
        {
            "operation": cut.operation,
            "parameters": list(cut.parameters),
            "value_gradient": cut.value_norm,
        },
        source=cut.source,
        call=cut.call,
    )


_FIX_OF_NAN = (
    "Find what divides by zero or takes a root or a logarithm of zero on the way back: rows "
    "without any visible key, norms of zero vectors. Keep one key visible in every row, add an "
    "eps under the root."
)

RULE = Rule(
    code="AS902",
    name="no-gradient",
    severity="warning",
    what=(
        "Attention is computed, but no gradient comes back to what decides where it looks: q and k "
        "are detached, computed under no_grad or in NumPy, chosen by argmax, or zero at the start; "
        "or the gradient isn't finite."
    ),
    why=(
        "What gets no gradient stays as it was at the start: without q and k, attention keeps "
        "looking where it did. The rest learns around it, and the loss still falls."
    ),
    fix=(
        "Keep q, k and the weights in the graph: detach only the copy that is kept for looking at, "
        "leave no_grad and NumPy out of the way to the context, use a straight-through estimator "
        "where the choice is hard. Initialise at most one of q and k with zeros."
    ),
    proof=(
        "One backward of a fixed random cotangent through the run in eval mode: the rule fires "
        "where autograd has no way to both q and k (or gives exact zeros because both are zero) "
        "while v receives a gradient; or to k and v, whose projections then learn nothing; or to a "
        "parameter that the output depends on, while others of the same attention receive one; or "
        "where two factors of a product are both all zero. "
        "Where a gradient is exactly zero, a run without a backward hook has to give one; where a "
        "reentrant checkpoint is given nothing that needs a gradient, a run without it in train "
        "mode."
    ),
    limits=(
        "Gradients that are merely small, as those of saturated weights, are another rule's "
        "(AS302). Models that run under no_grad on purpose, or are frozen, are left alone."
    ),
    sources=("https://github.com/yaq007/Autofocus-Layer/issues/6", "https://arxiv.org/abs/2303.06296"),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        q, k = self.q(x).detach(), self.k(x).detach()
        weights = (q @ k.transpose(-2, -1) / x.shape[-1] ** 0.5).softmax(dim=-1)
        return weights @ self.v(x)


model = Attention()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.shown = None

    def forward(self, x):
        q, k = self.q(x), self.k(x)
        weights = (q @ k.transpose(-2, -1) / x.shape[-1] ** 0.5).softmax(dim=-1)
        self.shown = weights.detach()
        return weights @ self.v(x)


model = Attention()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=("AS903",),
    as_it_starts=True,
)  # fmt: skip
