"""Training inside a recording: equal parameters, and recorded values are those of their time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.capture import record
from tests.capture.promise.models import ATTENTIONS, Block, Stack, by_hand, sample
from tests.capture.promise.runs import seed, undisturbed

every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "sgd foreach": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
    "adamw foreach": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, 0.01, fused=True),
    "adam single": lambda p: torch.optim.Adam(p, 0.01, foreach=False, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, foreach=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
}


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int = 3) -> list[Tensor]:
    """Train for a few steps; return the losses."""
    losses = []
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(count):
        optimizer.zero_grad()
        loss = F.mse_loss(model(sample()), sample())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    return losses


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
@every_attention
def test_optimizers(
    make: Callable[[Any], torch.optim.Optimizer], attend: Callable[..., Tensor]
) -> None:
    def run(model: nn.Module) -> Any:
        optimizer = make(model.parameters())
        return steps(model, optimizer), optimizer.state_dict()

    trace = undisturbed(partial(Stack, attend, 0.2), run)
    assert [call.step for call in trace] == [0, 0, 1, 1, 2, 2]


def test_lbfgs() -> None:
    def run(model: nn.Module) -> Any:
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        x, y = sample(), sample()

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure)

    assert len(undisturbed(Block, run)) >= 3


@every_attention
def test_averaged_weights_and_scaled_gradients(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        average = torch.optim.swa_utils.AveragedModel(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu")
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(sample()).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        average.update_parameters(model)
        return loss.detach(), average(sample()), scaler.state_dict()

    undisturbed(partial(Block, attend), run)


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
@every_attention
def test_values_are_those_of_their_time(
    make: Callable[[Any], torch.optim.Optimizer], attend: Callable[..., Tensor]
) -> None:
    """Each call of a run of three steps is that of a recording that ended before the update."""
    seed(1)
    whole = Stack(attend, 0.2)
    alone = copy.deepcopy(whole)
    with record(whole) as long:
        seed(2)
        steps(whole, make(whole.parameters()))
    optimizer, short = make(alone.parameters()), []
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    seed(2)
    for _ in range(3):
        optimizer.zero_grad()
        with record(alone) as trace:
            loss = F.mse_loss(alone(sample()), sample())
        short += [[one.clone() for one in (c.q, c.k, c.v, c.weights())] for c in trace]
        loss.backward()
        nn.utils.clip_grad_norm_(alone.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    assert len(long) == len(short) == 6
    for call, (q, k, v, weights) in zip(long, short, strict=True):
        assert torch.equal(call.q, q)
        assert torch.equal(call.k, k)
        assert torch.equal(call.v, v)
        assert torch.equal(call.weights(), weights)
    assert not torch.equal(long[0].q, long[2].q)


def test_dropout_is_replayed_bit_for_bit() -> None:
    trace = undisturbed(partial(Stack, by_hand, 0.5), lambda model: steps(model, sgd(model)))
    assert [call.replay_error for call in trace] == [0.0] * 6
    before = torch.get_rng_state()
    assert [call.recipe.dropout for call in trace] == [0.5] * 6
    assert torch.equal(trace[0].weights(), trace[0].weights())
    assert torch.equal(before, torch.get_rng_state())


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.1)


MASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "functional": lambda w: F.dropout(w, 0.3),
    "in place": lambda w: F.dropout(w, 0.3, inplace=True),
    "module": nn.Dropout(0.3),
    "alpha": lambda w: F.alpha_dropout(w, 0.3, training=True),
    "native": lambda w: torch.native_dropout(w, 0.3, train=True)[0],
    "bernoulli": lambda w: w * torch.bernoulli(torch.full_like(w, 0.7)) / 0.7,
    "rand": lambda w: w * (torch.rand(w.shape) > 0.3) / 0.7,
    "rand_like": lambda w: w * (torch.rand_like(w) > 0.3),
    "in place bernoulli": lambda w: w * torch.empty_like(w).bernoulli_(0.7),
    "noise": lambda w: w + 0.1 * torch.randn_like(w),
    "gumbel": lambda w: F.gumbel_softmax(w, dim=-1),
    "generator": lambda w: w * torch.rand(w.shape, generator=torch.Generator().manual_seed(3)),
    "whole heads": lambda w: F.dropout2d(w, 0.3, training=True),
    "rrelu": lambda w: F.rrelu(w, training=True),
}


@pytest.mark.parametrize("drop", MASKS.values(), ids=MASKS)
def test_random_numbers_of_any_kind(drop: Callable[[Tensor], Tensor]) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
        return drop((q @ k.mT).softmax(-1) * 1.0) @ v

    def run(model: nn.Module) -> Any:
        with torch.no_grad():
            return model(sample()), torch.rand(3)

    trace = undisturbed(partial(Block, attend), run)
    before = torch.get_rng_state()
    assert [call.replay_error for call in trace] == [0.0]
    assert torch.equal(before, torch.get_rng_state())


def test_deterministic_algorithms() -> None:
    def run(model: nn.Module) -> Any:
        torch.use_deterministic_algorithms(mode=True)
        try:
            return steps(model, sgd(model)), torch.empty(3)
        finally:
            torch.use_deterministic_algorithms(mode=False)

    assert len(undisturbed(partial(Stack, by_hand, 0.2), run)) == 6
