"""Modes and subclasses of the user's see what they see without attnscope."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from attnscope.capture import record
from tests.capture.promise.models import ATTENTIONS, Block, Stack, by_hand, fused, sample, step
from tests.capture.promise.runs import record_model, undisturbed

every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)


class Functions(TorchFunctionMode):
    """Writes down every function and changes the result of one."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(func, "__name__", str(func)))
        output = func(*args, **(kwargs or {}))
        return output * 2 if self.seen[-1] == "linear" else output


class Operators(TorchDispatchMode):
    """Writes down every operator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Random(TorchFunctionMode):
    """Adds noise to each result: any further call that it sees changes what it draws."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if isinstance(output, Tensor) and output.is_floating_point():
            torch.rand(())
        return output


@pytest.mark.parametrize("mode", [Functions, Operators, Random])
@every_attention
def test_mode_inside(mode: Callable[[], Any], attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        with mode() as active:
            out = step(model)
        return out, getattr(active, "seen", None)

    assert len(undisturbed(partial(Block, attend, 0.2), run)) == 1


@pytest.mark.parametrize("mode", [Functions, Operators, Random])
@every_attention
def test_mode_outside(mode: Callable[[], Any], attend: Callable[..., Tensor]) -> None:
    """The mode is already there when the recording starts."""

    def run(model: nn.Module, *, watched: bool) -> Any:
        torch.manual_seed(3)
        model.zero_grad()
        with mode() as active, record(model) if watched else contextlib.nullcontext():
            out = step(model)
        return out, Counter(getattr(active, "seen", ()))

    torch.manual_seed(0)
    model = Block(attend, 0.2).eval()
    (plain, before), (watched, after) = (run(model, watched=one) for one in (False, True))
    assert (after - before, before - after) == (Counter(), Counter())
    assert mode is Random or before.total() > 10
    for a, b in zip(plain, watched, strict=True):
        assert torch.equal(a, b)


@every_attention
def test_counted_arithmetic(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        with FlopCounterMode(display=False) as counter:
            step(model)
        return counter.get_total_flops(), str(counter.get_flop_counts())

    undisturbed(partial(Stack, attend), run)


def test_counted_arithmetic_of_the_fused_encoder() -> None:
    """Projections that a reader makes anew are not counted."""

    def run(model: nn.Module) -> Any:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(sample())
        return counter.get_total_flops()

    undisturbed(lambda: nn.TransformerEncoderLayer(16, 4, 8, batch_first=True).eval(), run)


class Marked(Tensor):
    """A subclass that lives on through every operation and counts them."""

    count = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.count += 1
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]


class Wrapper(Tensor):
    """A subclass that wraps another tensor and handles every operator itself."""

    inner: Tensor  # type: ignore[assignment]

    @staticmethod
    def __new__(cls: type[Self], inner: Tensor) -> Self:
        made = Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), inner.storage_offset(), dtype=inner.dtype
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        def out(one: Any) -> Any:
            return one.inner if isinstance(one, Wrapper) else one

        args, kwargs = torch.utils._pytree.tree_map(out, (args, kwargs or {}))
        result = func(*args, **kwargs)
        return torch.utils._pytree.tree_map(
            lambda one: Wrapper(one) if isinstance(one, Tensor) else one, result
        )


@every_attention
def test_subclass_of_functions(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        Marked.count = 0
        out = model(sample().as_subclass(Marked))
        return out, Marked.count

    assert len(undisturbed(partial(Block, attend), run)) == 1


@every_attention
def test_subclass_of_operators(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        with torch.no_grad():
            return model.eval()(Wrapper(sample())).inner

    undisturbed(partial(Block, attend), run)


@every_attention
def test_meta(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        with torch.device("meta"):
            return model(sample())

    trace = undisturbed(lambda: Block(attend).to("meta").eval(), run)
    assert len(trace) == 1
    assert trace[0].replay_error is None
    assert trace[0].q.shape == (2, 4, 5, 4)


@every_attention
def test_meta_as_default_device(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        torch.set_default_device("meta")
        try:
            return model.to("meta")(sample()), torch.empty(2)
        finally:
            torch.set_default_device(None)

    assert len(undisturbed(partial(Block, attend), run)) == 1
    with torch.device("meta"):
        assert len(undisturbed(partial(Block, attend), step)) == 1


@every_attention
def test_a_default_device_set_inside_stays(attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        torch.set_default_device("cpu")
        return model(sample())

    try:
        undisturbed(partial(Block, attend), run)
    finally:
        torch.set_default_device(None)


@every_attention
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
def test_fake(attend: Callable[..., Tensor], inside: bool) -> None:  # noqa: FBT001
    def run(model: nn.Module) -> Any:
        with FakeTensorMode(allow_non_fake_inputs=True) if inside else contextlib.nullcontext():
            return model.eval()(sample()).shape

    with contextlib.nullcontext() if inside else FakeTensorMode(allow_non_fake_inputs=True):
        trace = undisturbed(partial(Block, attend), run)
    assert len(trace) == 1
    assert trace[0].replay_error is None


def test_nested_recordings() -> None:
    inner = []

    def run(model: nn.Module) -> Any:
        first = step(model)
        with record(model) as trace:
            second = step(model)
        inner.append(trace)
        return first, second

    outer = undisturbed(partial(Block, fused), run)
    assert [len(trace) for trace in inner] == [1, 1]
    assert len(outer) == 2
    assert torch.equal(outer[1].q, inner[1][0].q)
    assert torch.equal(outer[1].grad("q"), inner[1][0].grad("q"))


def test_recordings_that_overlap() -> None:
    def run(model: nn.Module) -> Any:
        with contextlib.ExitStack() as first:
            first.enter_context(record_model(model))
            out = step(model)
            second = contextlib.ExitStack()
            second.enter_context(record_model(model))
            second.close()
        return out, step(model)

    assert len(undisturbed(partial(Block, by_hand), run)) == 2
