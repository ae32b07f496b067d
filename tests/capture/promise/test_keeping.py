"""Whatever is asked to be kept, and where, the model's run is the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.calls.trace import Trace
from attnscope.capture import record
from attnscope.capture import trace as trace_of
from tests.capture.promise.models import ATTENTIONS, Stack, by_hand, sample, step
from tests.capture.promise.runs import outcome, undisturbed
from tests.capture.promise.sameness import frozen

every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)

OPTIONS: dict[str, dict[str, Any]] = {
    "all": {"keep": "all"},
    "qkv": {"keep": "qkv"},
    "numbers": {"keep": "numbers"},
    "one module": {"modules": ["blocks.1"]},
    "on the cpu": {"device": "cpu"},
    "all on the cpu": {"keep": "all", "device": "cpu"},
    "numbers of one module": {"keep": "numbers", "modules": ["blocks.0"]},
}


def recorder(options: dict[str, Any]) -> Callable[[Any], contextlib.AbstractContextManager[Trace]]:
    return lambda model: record(model, **options)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@every_attention
def test_training_step(options: dict[str, Any], attend: Callable[..., Tensor]) -> None:
    trace = undisturbed(partial(Stack, attend, 0.3), step, recorder=recorder(options))
    assert len(trace) == (1 if "modules" in options else 2)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@every_attention
def test_inference(options: dict[str, Any], attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        with torch.inference_mode():
            return model.eval()(sample())

    trace = undisturbed(partial(Stack, attend), run, recorder=recorder(options))
    numbers = trace[0].numbers()
    assert len(numbers.entropy) == 4


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_autocast_and_checkpoints(options: dict[str, Any]) -> None:
    def run(model: nn.Module) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return step(model)

    build = partial(Stack, by_hand, 0.3, reentrant=False)
    undisturbed(build, run, recorder=recorder(options))


@every_attention
def test_reading_inside_the_recording(attend: Callable[..., Tensor]) -> None:
    """Everything that a call can be asked is asked while the model runs on."""

    def read(trace: Trace) -> None:
        for call in trace:
            call.q, call.k, call.v, call.recipe, call.replay_error  # noqa: B018  read for effect
            call.weights(), call.scores(), call.context(), call.numbers(), call.shapes()
            str(call), trace.select(kind=call.kind)

    def run(model: nn.Module, trace: Trace | None) -> Any:
        with torch.no_grad():
            x = model(sample())
            if trace is not None:
                read(trace)
            x = model(x)
        out = model(x)
        if trace is not None:
            read(trace)
        out.square().sum().backward()
        if trace is not None:
            read(trace)
            for call in trace.calls[4:]:
                call.grad("q"), call.grad("weights")
        return out

    current: list[Trace | None] = [None]

    @contextlib.contextmanager
    def watched(model: Any) -> Any:
        with record(model) as trace:
            current[0] = trace
            yield trace

    build = partial(Stack, attend)
    plain = outcome(build, lambda model: run(model, None), None)
    recorded = outcome(build, lambda model: run(model, current[0]), watched)
    assert plain.differences(recorded) == []
    assert recorded.trace is not None
    assert len(recorded.trace) == 6


@every_attention
def test_reading_draws_no_random_numbers(attend: Callable[..., Tensor]) -> None:
    model = Stack(attend, 0.3)
    trace = trace_of(model, sample())
    before = torch.get_rng_state()
    for call in trace:
        _ = call.recipe, call.replay_error, call.shapes()
        if attend is by_hand:
            call.weights()
    assert torch.equal(before, torch.get_rng_state())


def test_output_of_trace_is_the_models() -> None:
    torch.manual_seed(0)
    model, x = Stack().eval(), sample()
    with torch.no_grad():
        assert frozen(model(x)) == frozen(trace_of(model, x).output)


def test_arguments_are_handed_on_as_they_are() -> None:
    given: list[Any] = []

    def model(*args: Any, **kwargs: Any) -> object:
        given.extend([args, kwargs])
        return result

    result, a, b = object(), object(), [torch.ones(2)]
    assert trace_of(model, a, b, name=b).output is result
    assert given[0][0] is a
    assert given[0][1] is b
    assert given[1] == {"name": b}
    assert given[1]["name"] is b
