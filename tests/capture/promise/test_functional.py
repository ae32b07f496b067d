"""torch.func: transforms see the same model, and give the same results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from attnscope.capture import record
from tests.capture.promise.models import ATTENTIONS, BATCH, TOKENS, WIDTH, Block, by_hand, sample
from tests.capture.promise.runs import undisturbed

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


class Plain(nn.Module):
    """One attention without anything that is forbidden under a transform."""

    def __init__(self, attend: Callable[..., Tensor] = by_hand) -> None:
        super().__init__()
        self.attend = attend
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x (..., tokens, width), four heads."""
        heads = (part.unflatten(-1, (4, -1)).transpose(-2, -3) for part in self.qkv(x).chunk(3, -1))
        return self.out(self.attend(*heads, 0.0, training=False).transpose(-2, -3).flatten(-2))  # type: ignore[no-any-return]


def scalar(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().sum()  # type: ignore[no-any-return]


def gradient(model: nn.Module) -> Any:
    return grad(partial(scalar, model))(sample())


def of_parameters(model: nn.Module) -> Any:
    parameters = {name: one.detach() for name, one in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, parameters, (x,)).square().sum()  # type: ignore[no-any-return]

    return grad(loss)(parameters, sample())


def per_sample(model: nn.Module) -> Any:
    parameters = {name: one.detach() for name, one in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, parameters, (x[None],)).square().sum()  # type: ignore[no-any-return]

    return vmap(grad(loss), in_dims=(None, 0))(parameters, sample())


def called(model: nn.Module) -> Any:
    other = {name: one.detach() * 2 for name, one in model.named_parameters()}
    return functional_call(model, other, (sample(),))


def mapped(model: nn.Module) -> Any:
    return vmap(model)(sample(3))


def mapped_twice(model: nn.Module) -> Any:
    return vmap(vmap(model))(torch.randn(2, 3, BATCH, TOKENS, WIDTH))


def random_map(model: nn.Module) -> Any:
    return vmap(lambda x: model(x + torch.randn_like(x)), randomness="different")(sample(3))


def forward_mode(model: nn.Module) -> Any:
    return jvp(model, (sample(),), (sample(),))


def reverse_mode(model: nn.Module) -> Any:
    out, pull = vjp(model, sample())  # type: ignore[misc]
    return out, pull(torch.ones_like(out))


def by_rows(model: nn.Module) -> Any:
    return jacrev(lambda x: model(x).sum(0))(sample(1, 2))


def by_columns(model: nn.Module) -> Any:
    return jacfwd(lambda x: model(x).sum(0))(sample(1, 2))


def second(model: nn.Module) -> Any:
    return hessian(partial(scalar, model))(sample(1, 1))


def ensemble(model: nn.Module) -> Any:
    parameters, buffers = torch.func.stack_module_state([model, model])

    def run(parameters: Any, buffers: Any, x: Tensor) -> Any:
        return functional_call(model, (parameters, buffers), (x,))

    return vmap(run, in_dims=(0, 0, None))(parameters, buffers, sample())


def dual_numbers(model: nn.Module) -> Any:
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(sample(), sample())
        return tuple(torch.autograd.forward_ad.unpack_dual(model(x)))


def functionalized(model: nn.Module) -> Any:
    return torch.func.functionalize(model)(sample())


def linearized(model: nn.Module) -> Any:
    out, push = torch.func.linearize(model, sample())
    return out, push(sample())


MAPPED = [mapped, mapped_twice, random_map, ensemble, per_sample]
SIMPLE = [called, gradient, of_parameters, reverse_mode, forward_mode, dual_numbers, functionalized]
WRAPPED = [*MAPPED, by_rows, by_columns, second]
# PyTorch itself has no forward derivative of the fused function.
FUSED_FORWARD = {forward_mode, dual_numbers, by_columns, second, linearized}


@pytest.mark.parametrize("run", [*SIMPLE, *WRAPPED, linearized], ids=lambda run: run.__name__)
@pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)
def test_transforms(run: Callable[[nn.Module], Any], attend: Callable[..., Tensor]) -> None:
    fails = attend is not by_hand and run in FUSED_FORWARD
    trace = undisturbed(partial(Plain, attend), run, fails=fails)
    if not fails and run not in MAPPED:
        assert len(trace) >= 1
        names = {call.module for call in trace}
        assert names == {""} or run is linearized  # which runs a graph of its own


@pytest.mark.parametrize("run", MAPPED, ids=lambda run: run.__name__)
@pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)
def test_inside_vmap_attention_is_named_and_not_read(
    run: Callable[[nn.Module], Any], attend: Callable[..., Tensor]
) -> None:
    model = Plain(attend)
    with record(model) as trace:
        run(model)
    assert len(trace) == 0
    assert any("vmap" in unseen.reason for unseen in trace.unseen)


def test_a_transform_around_the_recording() -> None:
    model, seen = Plain(), []

    def watched(x: Tensor) -> Tensor:
        with record(model) as trace:
            out = scalar(model, x)
        seen.append(len(trace))
        return out

    x = sample()
    assert torch.equal(grad(partial(scalar, model))(x), grad(watched)(x))
    assert torch.equal(vmap(grad(partial(scalar, model)))(x), vmap(grad(watched))(x))
    assert seen == [1, 0]  # inside vmap attention is named, not read


def test_a_block_in_eval_mode() -> None:
    def run(model: nn.Module) -> Any:
        return grad(partial(scalar, model.eval()))(sample())

    assert len(undisturbed(Block, run)) == 1
