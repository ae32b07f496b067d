"""Nothing stays in memory once the trace is dropped, and models and tensors die when they would."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.capture import record
from attnscope.capture import trace as trace_of
from tests.capture.promise.models import ATTENTIONS, Block, Stack, fused, sample, step
from tests.capture.promise.world import live_tensors

every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)


def forward(model: nn.Module) -> Any:
    return model(sample())


def without_gradients(model: nn.Module) -> Any:
    with torch.no_grad():
        return model(sample())


@pytest.fixture(autouse=True)
def _only_what_is_new() -> Iterator[None]:
    """Leave what PyTorch itself made out of every collection, which makes them quick."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


RUNS = [forward, without_gradients, step]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
@every_attention
def test_tensors_are_gone(run: Callable[[nn.Module], Any], attend: Callable[..., Tensor]) -> None:
    model = Stack(attend, 0.2)
    run(model)
    before = live_tensors()
    with record(model) as trace:
        run(model)
    assert live_tensors() > before
    for call in trace:
        call.weights()
        _ = call.recipe, call.replay_error
    del trace, call
    assert live_tensors() == before


@every_attention
def test_tensors_are_gone_without_a_collection(attend: Callable[..., Tensor]) -> None:
    """Reference counts suffice for what is not kept: no cycle holds activations back."""
    model = Stack(attend)
    gc.collect()
    gc.disable()
    try:
        with record(model), torch.no_grad():
            out = weakref.ref(model(sample()))
            assert out() is None
    finally:
        gc.enable()


@every_attention
def test_the_model_is_gone(attend: Callable[..., Tensor]) -> None:
    model = Stack(attend)
    reference = weakref.ref(model)
    with record(model) as trace:
        step(model)
    del model
    gc.collect()
    assert reference() is None
    assert trace[0].q.shape == (2, 4, 5, 4)


def test_the_graph_is_gone() -> None:
    """A trace keeps no graph of autograd alive once the user has let go of the output."""
    model = Stack()
    saved = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(weakref.ref(copy := tensor.clone()))
        return copy

    with record(model) as trace, torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = model(sample())
    assert sum(one() is not None for one in saved) > 0
    del out
    gc.collect()
    assert sum(one() is not None for one in saved) == 0
    assert len(trace) == 2


@every_attention
def test_many_recordings_do_not_pile_up(attend: Callable[..., Tensor]) -> None:
    model = Stack(attend)
    counts = []
    for _ in range(4):
        trace = trace_of(model, sample())
        del trace
        gc.collect()
        counts.append((live_tensors(), len(gc.get_objects())))
    assert counts[1][0] == counts[-1][0]
    assert abs(counts[-1][1] - counts[1][1]) < 50


def test_a_long_recording_without_attention_keeps_nothing() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LayerNorm(16))
    with record(model), torch.no_grad():
        x = model(sample())
        before = live_tensors()
        for _ in range(20):
            x = model(x)
        assert live_tensors() == before


def test_a_kept_trace_is_noticed() -> None:
    model = Stack(fused)
    step(model)
    before = live_tensors()
    kept = [trace_of(model, sample())]
    assert live_tensors() > before
    kept.clear()
    assert live_tensors() == before


def test_failed_runs_leave_nothing() -> None:
    model = Stack(fused)
    step(model)
    before = live_tensors()
    for _ in range(3):
        with pytest.raises(RuntimeError), record(model):  # noqa: PT012  the recording is part of what raises
            model(sample())
            model(sample()[..., :3])
    assert live_tensors() == before


def test_block_alone() -> None:
    build = partial(Block, fused)
    model = build()
    before = live_tensors()
    trace_of(model, sample())
    assert live_tensors() == before
