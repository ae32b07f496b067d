"""Other threads, generators and coroutines run as if nothing were recorded."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import activation, transformer

from attnscope.calls.trace import Trace
from attnscope.capture import record
from tests.capture.promise.models import ATTENTIONS, Block, Stack, sample, step
from tests.capture.promise.runs import seed, undisturbed
from tests.capture.promise.sameness import frozen
from tests.capture.promise.world import world_now

every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)


def encoder() -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 8, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


def in_thread(run: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


@every_attention
def test_another_thread_is_not_recorded(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        x = sample()
        return in_thread(lambda: model(x)), in_thread(world_now).facts["function modes"]

    assert len(undisturbed(partial(Block, attend), run)) == 0


def test_another_thread_at_the_same_time() -> None:
    model, x = encoder(), sample()
    with torch.no_grad():
        expected = frozen(model(x))
    results: list[Any] = []
    recorded: list[int] = []
    barrier = threading.Barrier(3)

    def plain() -> None:
        barrier.wait()
        with torch.no_grad():
            results.extend(frozen(model(x)) for _ in range(20))

    def watched() -> None:
        barrier.wait()
        for _ in range(10):
            with torch.no_grad(), record(model) as trace:
                results.append(frozen(model(x)))
            recorded.append(len(trace))

    before = world_now()
    threads = [threading.Thread(target=one) for one in (plain, watched, watched)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 40
    assert all(result == expected for result in results)
    assert recorded == [2] * 20
    assert before.differences(world_now()) == []


@every_attention
def test_a_recording_in_each_of_two_threads(attend: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    models = [Stack(attend), Stack(attend)]
    expected = [frozen(model.eval()(torch.ones(2, 5, 16))) for model in models]
    first, second = threading.Event(), threading.Event()

    def run(model: nn.Module, mine: threading.Event, other: threading.Event) -> tuple[Any, Trace]:
        with record(model) as trace:
            mine.set()
            assert other.wait(20)
            return frozen(model(torch.ones(2, 5, 16))), trace

    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(run, models[0], first, second),
            pool.submit(run, models[1], second, first),
        ]
        done = [job.result() for job in jobs]
    for (result, trace), wanted in zip(done, expected, strict=True):
        assert result == wanted
        assert [call.module for call in trace] == ["blocks.0", "blocks.1"]
        assert [call.replay_error == 0.0 or call.kind == "sdpa" for call in trace] == [True, True]


def test_the_patch_ends_with_the_last_recording() -> None:
    """The first recording to start is the first to end, in another thread."""
    originals = activation.torch, transformer.torch  # type: ignore[attr-defined]
    started, stop = threading.Event(), threading.Event()

    def hold() -> None:
        with record(None):
            started.set()
            stop.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    started.wait(20)
    with record(None):
        stop.set()
        thread.join()
    assert (activation.torch, transformer.torch) == originals  # type: ignore[attr-defined]


@every_attention
def test_backward_in_another_thread(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        out = model(sample())
        in_thread(out.square().sum().backward)
        return out

    trace = undisturbed(partial(Block, attend), run)
    assert trace[0].grad("context").shape == (2, 4, 5, 4)


def test_data_parallel() -> None:
    def build() -> nn.Module:
        return nn.DataParallel(Block())

    trace = undisturbed(build, step)
    assert [call.module for call in trace] == ["module"]


def tokens(model: nn.Module) -> Iterator[Tensor]:
    x = sample()
    while True:
        x = model(x)
        yield x.clone()


def test_a_generator_runs_on_after_the_recording() -> None:
    def run(*, watched: bool) -> tuple[Any, int]:
        seed(1)
        model = Block()
        stream = tokens(model)
        out = [next(stream)]
        with record(model) if watched else contextlib.nullcontext() as trace:
            out.append(next(stream))
        out.append(next(stream))
        return frozen(out), 0 if trace is None else len(trace)

    plain, watched = run(watched=False), run(watched=True)
    assert plain[0] == watched[0]
    assert watched[1] == 1


def test_coroutines() -> None:
    async def talk(model: nn.Module, x: Tensor) -> Tensor:
        x = model(x)
        await asyncio.sleep(0)
        return model(x)  # type: ignore[no-any-return]

    async def both(model: nn.Module) -> Any:
        return await asyncio.gather(talk(model, sample()), talk(model, sample()))

    trace = undisturbed(Block, lambda model: asyncio.run(both(model)))
    assert len(trace) == 4


def test_a_decorated_function() -> None:
    def run(model: nn.Module) -> Any:
        @record(model)
        def twice(x: Tensor) -> Tensor:
            return model(model(x))  # type: ignore[no-any-return]

        return twice(sample()), twice(sample())

    assert len(undisturbed(Block, run)) == 4
