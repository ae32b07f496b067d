"""`call.grad` of hand-written attention equals autograd on the same computation, written out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.capture import record
from tests.capture.promise.models import BATCH, Stack, sample
from tests.capture.promise.runs import undisturbed
from tests.styles import STYLES
from tests.styles.truth import Style, Truth

CLOSE = 2e-4  # of the largest entry; both sides are float32 and add up in another order


def usable(style: Style) -> bool:
    """Whether one call makes the whole output, by steps that autograd follows.

    Not usable: steps in place that autograd itself refuses; q or k that reach the output beside
    q·k as well (a bias made of q, a latent that is key and value), of which a call tells its own
    part; weights that are divided only after they met v; what is not read as its definition has it.
    """
    one = style.calls == style.pieces == 1 and style.kind == "eager"
    if not (one and style.truth and style.output) or style.dropout or style.normaliser == "exp":
        return False
    return style.name not in REFUSED | SEVERAL_PATHS | READ_OTHERWISE


REFUSED = {"in-place-by-hand", "softcap-in-place", "out-arguments-no-grad"}
READ_OTHERWISE = {"einsum-dense-general-fused-output"}  # see docs/limits.md
SEVERAL_PATHS = {
    "exp-divided-after-values",
    "latent-absorbed",
    "relative-disentangled-gather",
    "relative-key-query",
    "relative-shaw-keys-and-values",
}
HAND_WRITTEN = [style for style in STYLES if usable(style)]


def call_of(style: Style) -> tuple[Call, Tensor]:
    """Record forward and backward; return the call and the weight of the loss."""
    model, given = style.build(), style.inputs()
    with record(model) as trace:
        out = model(**given) if isinstance(given, dict) else model(*given)
        out = out[0] if isinstance(out, tuple) else out
        cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(4))
        (out * cotangent).sum().backward()
    return trace[0], cotangent


def expected(style: Style, cotangent: Tensor) -> tuple[Truth, dict[str, Tensor]]:
    """Differentiate the definition."""
    model = style.build()
    assert style.truth is not None
    assert style.output is not None
    truth = style.truth(model, style.inputs())
    loss = (style.output(model, truth) * cotangent).sum()
    named = {name: getattr(truth, name) for name in ("q", "k", "v", "weights", "context")}
    named = {name: one for name, one in named.items() if one is not None and one.requires_grad}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    gradients = {n: g for n, g in zip(named, found, strict=True) if g is not None}  # type: ignore[redundant-expr]
    if style.normaliser == "softmax" and "weights" in gradients and not style.sinks:
        weights, gradient = truth.weights.detach(), gradients["weights"]
        axis = -1 if style.normaliser_axis == "keys" else -2
        inner = (weights * gradient).sum(axis, keepdim=True)
        if style.normaliser_axis in ("keys", "queries"):
            gradients["scores"] = weights * (gradient - inner)
    return truth, gradients


def far(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max().clamp_min(1e-6))


@pytest.mark.parametrize("style", HAND_WRITTEN, ids=lambda style: style.name)
def test_styles(style: Style) -> None:
    call, cotangent = call_of(style)
    truth, gradients = expected(style, cotangent)
    assert {"v", "context"} & gradients.keys()
    limit = max(CLOSE, 2 * style.tolerance)  # once on the way forth and once on the way back
    for name, wanted in gradients.items():
        given = call.grad(name)  # type: ignore[arg-type]
        assert given.shape == wanted.shape, name
        if name == "weights" and truth.visible is not None:  # elsewhere it comes to nothing
            given, wanted = given * truth.visible, wanted * truth.visible  # noqa: PLW2901
        assert far(given, wanted) < limit, (name, far(given, wanted))


def test_many_styles_are_covered() -> None:
    assert len(HAND_WRITTEN) >= 40
    assert sum(style.heads != style.kv_heads for style in HAND_WRITTEN) >= 3


def test_another_gradient_would_be_noticed() -> None:
    style = HAND_WRITTEN[0]
    call, cotangent = call_of(style)
    _, gradients = expected(style, cotangent * 1.01)
    assert all(far(call.grad(name), wanted) > 5 * CLOSE for name, wanted in gradients.items())  # type: ignore[arg-type]


def explicit(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
    """Return every tensor of causal attention, in float64, as leaves of one graph."""
    q, k, v = (one.double().requires_grad_() for one in (q, k, v))
    later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, float("-inf"))
    weights = scores.softmax(-1)
    return {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "context": weights @ v}


def checked(call: Call) -> None:
    """Compare with autograd on the definition, from the recorded gradient of the context."""
    group = call.heads // call.kv_heads
    k, v = (one.repeat_interleave(group, 1) for one in (call.k, call.v))
    named = explicit(call.q, k, v)
    context = call.grad("context").double()
    found = torch.autograd.grad(named["context"], list(named.values()), context)
    for (name, _), wanted in zip(named.items(), found, strict=True):
        if name in ("k", "v"):
            wanted = wanted.unflatten(1, (call.kv_heads, group)).sum(2)  # noqa: PLW2901
        assert far(call.grad(name).double(), wanted) < CLOSE, name  # type: ignore[arg-type]


def backward(model: nn.Module) -> Any:
    x = sample().requires_grad_()
    model(x).square().sum().backward()
    return x.grad


def test_grouped_heads() -> None:
    trace = undisturbed(Stack, backward)
    for call in trace:
        assert (call.heads, call.kv_heads) == (4, 2)
        checked(call)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed(reentrant: bool) -> None:  # noqa: FBT001
    trace = undisturbed(partial(Stack, reentrant=reentrant), backward)
    plain = undisturbed(Stack, backward)
    for module in ("blocks.0", "blocks.1"):
        pair = [call for call in trace if call.module == module]
        (single,) = [call for call in plain if call.module == module]
        reached = [call for call in pair if has_gradient(call)]
        assert len(reached) >= 1
        for call in reached:
            checked(call)
            assert torch.equal(call.grad("weights"), single.grad("weights"))


def has_gradient(call: Call) -> bool:
    from attnscope.errors import ReplayError

    try:
        call.grad("context")
    except ReplayError:
        return False
    return True


def by_columns(model: nn.Module) -> Any:
    x = sample().requires_grad_()
    out = model(x)
    first = torch.autograd.grad(out[..., 0].sum(), x, retain_graph=True)
    return first, torch.autograd.grad(out[..., 1:].sum(), x)


def micro_batches(model: nn.Module) -> Any:
    for _ in range(2):
        model(sample()).square().mean().backward()


def only_v(model: nn.Module) -> Any:
    for block in model.blocks:  # type: ignore[union-attr]
        block.q.requires_grad_(requires_grad=False)
    return backward(model)


def with_graph(model: nn.Module) -> Any:
    x = sample().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    return gradient


WAYS = [by_columns, micro_batches, only_v, with_graph]


@pytest.mark.parametrize("run", WAYS, ids=lambda run: run.__name__)
def test_ways_of_backward(run: Callable[[nn.Module], Any]) -> None:
    trace = undisturbed(Stack, run)
    assert len(trace) >= BATCH
    for call in trace:
        checked(call)
        assert not call.grad("context").requires_grad
