"""A model that raises raises the same thing, and nothing half-recorded stays behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.capture import record
from attnscope.capture import trace as trace_of
from attnscope.errors import InputError
from tests.capture.promise.models import Block, Stack, by_hand, sample, step
from tests.capture.promise.runs import undisturbed
from tests.capture.promise.world import world_now


class OwnError(Exception):
    """An error with state of its own."""

    def __init__(self, code: int) -> None:
        super().__init__("own", code)
        self.code = code


def own(q: Tensor, k: Tensor, v: Tensor, drop: float, *, training: bool) -> Tensor:
    by_hand(q, k, v, drop, training=training)
    raise OwnError(3)


def shapes(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    return (q @ k).softmax(-1) @ v


def shapes_later(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    return (q @ k.mT).softmax(-1) @ v[:, :, :2]


def fused_shapes(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    return F.scaled_dot_product_attention(q, k[..., :3], v)


def fused_arguments(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask=None)  # type: ignore[call-arg]


def no_such_function(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    return (q @ k.mT).soft_max(-1) @ v  # type: ignore[attr-defined,no-any-return]


def wrong_type(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    return (q @ k.mT).softmax(-1) @ v.double()


def wrong_index(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    scores = q @ k.mT
    scores[:, :, 99] = 0.0
    return scores.softmax(-1) @ v


def in_place_on_leaf(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    bias = torch.zeros(5, 5, requires_grad=True)
    bias += q @ k.mT
    return bias.softmax(-1) @ v


def from_another(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    try:
        return shapes(q, k, v)
    except RuntimeError as error:
        raise OwnError(4) from error


def during_another(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    try:
        return shapes(q, k, v)
    except RuntimeError:
        return wrong_index(q, k, v)


FAILING = [
    own,
    shapes,
    shapes_later,
    fused_shapes,
    fused_arguments,
    no_such_function,
    wrong_type,
    wrong_index,
    in_place_on_leaf,
    from_another,
    during_another,
]


@pytest.mark.parametrize("attend", FAILING, ids=lambda one: one.__name__)
def test_errors_are_the_models_own(attend: Callable[..., Tensor]) -> None:
    trace = undisturbed(partial(Block, attend), step, fails=True)
    assert len(trace) == (1 if attend is own else 0)


def test_the_very_error_comes_out() -> None:
    def attend(*_: Any, **__: Any) -> Tensor:
        raise error

    error = OwnError(5)
    with pytest.raises(OwnError) as caught:
        trace_of(Block(attend), sample())
    assert caught.value is error
    assert error.__context__ is None
    assert not hasattr(error, "__notes__")


def test_an_error_after_the_attention() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stack = Stack()

        def forward(self, x: Tensor) -> Tensor:
            self.stack(x)
            raise OwnError(6)

    trace = undisturbed(Fails, step, fails=True)
    assert [call.module for call in trace] == ["stack.blocks.0", "stack.blocks.1"]
    assert [call.replay_error for call in trace] == [0.0, 0.0]


def test_an_error_in_backward() -> None:
    def run(model: nn.Module) -> None:
        def refuse(_: Tensor) -> None:
            raise OwnError(7)

        out = model(sample())
        out.register_hook(refuse)
        out.sum().backward()

    trace = undisturbed(Block, run, fails=True)
    assert len(trace) == 1


def test_an_error_that_the_user_catches() -> None:
    def run(model: nn.Module) -> Any:
        with contextlib.suppress(RuntimeError):
            model(sample()[..., :3])
        return step(model)

    assert len(undisturbed(Block, run)) == 1


def test_base_exceptions_leave_nothing_behind() -> None:
    before = world_now()
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(kind), record(Block()) as trace:  # noqa: PT012  the recording is part of what raises
            by_hand(*(torch.randn(1, 1, 2, 2) for _ in "qkv"), 0.0, training=False)  # type: ignore[arg-type,misc]
            raise kind
        assert before.differences(world_now())[1:] == []  # the random numbers were drawn
        assert len(trace) == 1


def test_a_second_entry_of_one_recording_is_refused() -> None:
    recording = record(Block())
    with recording:
        pass
    with pytest.raises((RuntimeError, AttributeError)), recording:
        pass


def test_wrong_arguments_leave_nothing_behind() -> None:
    before = world_now()
    with pytest.raises(InputError, match="keep"), record(Block(), keep="everything"):  # type: ignore[arg-type]
        pass
    with pytest.raises(InputError), record(Block(), device="nowhere"):
        pass
    assert [one for one in before.differences(world_now()) if not one.startswith("random")] == []


def test_a_generator_that_is_dropped_half_way() -> None:
    def lines(model: nn.Module) -> Iterator[Tensor]:
        with record(model):
            while True:
                yield model(sample())

    before = world_now()
    generator = lines(Block())
    next(generator)
    assert "function modes" in before.differences(world_now())
    generator.close()  # type: ignore[attr-defined]
    assert [one for one in before.differences(world_now()) if not one.startswith("random")] == []
