"""AS902: q and k, or what they are made of, receive no gradient, or one that isn't finite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.residual.cutting import Cut
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.residual.cutting import cut_calls, still_calls
    from attnscope.checks.residual.numbers import left_parameters
    from attnscope.checks.residual.starved import dead_products, starved_parameters
    from attnscope.checks.residual.unseen_scores import cut_scores

    told = False
    for cut in cut_calls(subject):
        told = True
        yield _of_cut(cut)
    if not told:
        for cut in cut_scores(subject):
            told = True
            yield _of_cut(cut)
    if not told:
        for cut in starved_parameters(subject):
            yield _of_starved(cut)
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


def _of_starved(cut: Cut) -> Finding:
    names = ", ".join(cut.parameters[:4])
    more = f" and {len(cut.parameters) - 4} more" if len(cut.parameters) > 4 else ""
    return RULE.found(
        f"{cut.operation} cuts the gradient: {names}{more} decide what comes out, and get none, "
        f"where the largest one of the same attention is {cut.value_norm:.2g}",
        {
            "operation": cut.operation,
            "parameters": list(cut.parameters),
            "largest_gradient": cut.value_norm,
        },
        source=cut.source,
        module=cut.parameters[0].rpartition(".")[0].rpartition(".")[0],
    )


def _of_left(cut: Cut) -> Finding:
    names = ", ".join(cut.parameters[:4])
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
    names = ", ".join(cut.parameters[:4])
    more = f" and {len(cut.parameters) - 4} more" if len(cut.parameters) > 4 else ""
    if cut.parts:
        where, rest = f"of {' and '.join(cut.parts)}", "q, k and v"
    else:
        where, rest = "between q·k and the context", "v"
    return RULE.found(
        f"{cut.operation} cuts the gradient {where}: {names}{more} get nothing through it, where "
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
        "where two factors of a product are both all zero."
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
)  # fmt: skip
