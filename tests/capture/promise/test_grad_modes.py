"""Nothing differs under any way of running autograd, or of running without it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.calls.call import TensorName
from attnscope.capture import record
from tests.capture.promise.models import ATTENTIONS, Block, Stack, sample, step
from tests.capture.promise.runs import seed, undisturbed
from tests.capture.promise.sameness import frozen

pytestmark = pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled:UserWarning")
every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)

MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "grad": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast without cache": lambda: torch.autocast("cpu", torch.bfloat16, cache_enabled=False),
    "anomaly": lambda: torch.autograd.detect_anomaly(check_nan=False),
    "saved on cpu": torch.autograd.graph.save_on_cpu,
    "graph order": lambda: torch.autograd.set_multithreading_enabled(mode=False),
}


@every_attention
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
def test_forward(
    attend: Callable[..., Tensor],
    mode: Callable[[], contextlib.AbstractContextManager[Any]],
    train: bool,  # noqa: FBT001
) -> None:
    def run(model: nn.Module) -> Tensor:
        with mode():
            return model.train(train)(sample())  # type: ignore[no-any-return]

    trace = undisturbed(partial(Block, attend, drop=0.3), run)
    assert len(trace) == 1
    assert not trace[0].recomputed


@every_attention
def test_modes_around_the_recording(attend: Callable[..., Tensor]) -> None:
    for mode in MODES.values():
        with mode():
            trace = undisturbed(partial(Block, attend), lambda model: model(sample()))
        assert len(trace) == 1


@every_attention
def test_training_step(attend: Callable[..., Tensor]) -> None:
    trace = undisturbed(partial(Block, attend, drop=0.3), step)
    assert trace[0].grad("q").shape == trace[0].q.shape


@pytest.mark.parametrize("reentrant", [True, False])
@every_attention
def test_checkpointing(attend: Callable[..., Tensor], reentrant: bool) -> None:  # noqa: FBT001
    trace = undisturbed(partial(Stack, attend, 0.3, reentrant=reentrant), step)
    assert [call.recomputed for call in trace] == [False, False, True, True]
    assert [call.module for call in trace] == ["blocks.0", "blocks.1", "blocks.1", "blocks.0"]
    assert [call.step for call in trace] == [0] * 4
    for call in trace.calls[2:]:
        first = next(c for c in trace if c.module == call.module)
        assert torch.equal(first.q, call.q)


@every_attention
def test_checkpointing_under_autocast(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return step(model)

    trace = undisturbed(partial(Stack, attend, 0.3, reentrant=False), run)
    assert [call.recomputed for call in trace] == [False, False, True, True]
    assert trace[0].context().dtype == torch.bfloat16


def several_backwards(model: nn.Module) -> Any:
    for _ in range(3):
        model(sample()).square().sum().backward()


def retained(model: nn.Module) -> Any:
    loss = model(sample()).square().sum()
    loss.backward(retain_graph=True)
    loss.backward()


def freed(model: nn.Module) -> Any:
    loss = model(sample()).square().sum()
    loss.backward()
    loss.backward()


def by_grad(model: nn.Module) -> Any:
    x = sample().requires_grad_()
    return torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])


def double_backward(model: nn.Module) -> Any:
    x = sample().requires_grad_()
    (first,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    first.square().sum().backward()
    return first, x.grad


def of_a_part(model: nn.Module) -> Any:
    out = model(sample())
    out[0].sum().backward(inputs=list(model.parameters())[:2])
    return out


def batched(model: nn.Module) -> Any:
    x = sample().requires_grad_()
    rows = torch.eye(4)
    out = model(x).flatten()[:4]
    return torch.autograd.grad(out, x, rows, is_grads_batched=True)


def jacobian(model: nn.Module) -> Any:
    return torch.autograd.functional.jacobian(lambda x: model(x).sum((0, 1)), sample(1, 2))


def hessian(model: nn.Module) -> Any:
    return torch.autograd.functional.hessian(lambda x: model.eval()(x).sum(), sample(1, 2))


WAYS = [
    several_backwards, retained, by_grad, double_backward, of_a_part, batched, jacobian, hessian,
]  # fmt: skip


@pytest.mark.parametrize("run", WAYS, ids=lambda run: run.__name__)
def test_ways_of_backward(run: Callable[[nn.Module], Any]) -> None:
    assert len(undisturbed(Block, run)) >= 1


def test_backward_of_a_freed_graph_fails_as_ever() -> None:
    undisturbed(Block, freed, fails=True)


def test_backward_after_the_recording() -> None:
    gradients = []
    for watched in (False, True):
        seed(0)
        model = Block()
        with record(model) if watched else contextlib.nullcontext():
            out = model(sample())
        out.square().sum().backward()
        gradients.append(frozen([p.grad for p in model.parameters()]))
    assert gradients[0] == gradients[1]


def test_gradients_of_several_backwards_add_up() -> None:
    def run(model: nn.Module) -> Any:
        loss = model(sample()).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()

    def once(model: nn.Module) -> Any:
        model(sample()).square().sum().backward()

    twice, single = undisturbed(Block, run)[0], undisturbed(Block, once)[0]
    names: list[TensorName] = ["context", "q", "weights"]
    for name in names:
        assert torch.equal(twice.grad(name), 2 * single.grad(name))
