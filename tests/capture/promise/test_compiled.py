"""Compiled and scripted regions give the same results; what can't be seen is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from attnscope.capture import record
from tests.capture.promise.models import ATTENTIONS, Block, Stack, by_hand, fused, sample, step
from tests.capture.promise.runs import undisturbed

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]
every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)


@pytest.fixture(autouse=True)
def _nothing_compiled_yet() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def whole(attend: Callable[..., Tensor]) -> nn.Module:
    return torch.compile(Block(attend), backend="eager")  # type: ignore[return-value]


def method(attend: Callable[..., Tensor]) -> nn.Module:
    model = Block(attend)
    model.compile(backend="eager")
    return model


def parts(attend: Callable[..., Tensor]) -> nn.Module:
    model = Stack(attend)
    model.blocks[1] = torch.compile(model.blocks[1], backend="eager")  # type: ignore[assignment]
    return model


def function(attend: Callable[..., Tensor]) -> nn.Module:
    return Block(torch.compile(attend, backend="eager"))


BUILDS = [whole, method, parts, function]


@pytest.mark.parametrize("build", BUILDS, ids=lambda one: one.__name__)
@every_attention
def test_compiled(
    build: Callable[[Callable[..., Tensor]], nn.Module], attend: Callable[..., Tensor]
) -> None:
    trace = undisturbed(partial(build, attend), step)
    assert len(trace) == (2 if build is parts else 1)


@every_attention
def test_compiled_before_the_recording(attend: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    model = whole(attend).eval()
    x = sample()
    before = model(x)
    with record(model) as trace:
        inside = model(x)
    after = model(x)
    assert torch.equal(before, inside)
    assert torch.equal(before, after)
    assert len(trace) == 1


def test_compiled_code_is_compiled_again_afterwards() -> None:
    """The recording leaves the compiler as it was: before and after it, graphs are run."""
    runs = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            runs.append(1)
            return graph.forward(*args)

        return run

    model = torch.compile(Block().eval(), backend=backend)
    x = sample()
    model(x)
    count = len(runs)
    with record(model):
        model(x)
    model(x)
    model(x)
    assert len(runs) == 3 * count


def test_a_stance_of_the_users_stays() -> None:
    def run(model: nn.Module) -> Any:
        return model(sample()), str(torch._dynamo.eval_frame._stance)

    with torch.compiler.set_stance("eager_on_recompile"):
        model = whole(by_hand)
        with record(model) as trace:
            run(model)
        assert torch._dynamo.eval_frame._stance.stance == "eager_on_recompile"
    assert len(trace) == 1


class Scripted(nn.Module):
    """A scripted attention beside one that isn't."""

    def __init__(self, make: Callable[[nn.Module], nn.Module]) -> None:
        super().__init__()
        self.inner = make(nn.MultiheadAttention(16, 4, batch_first=True))
        self.block = Block(fused)

    def forward(self, x: Tensor) -> Tensor:
        """Run both."""
        return self.block(self.inner(x, x, x)[0])  # type: ignore[no-any-return]


def traced(module: nn.Module) -> nn.Module:
    x = torch.zeros(2, 5, 16)
    return torch.jit.trace(module, (x, x, x), check_trace=False)  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [torch.jit.script, traced], ids=["script", "trace"])
def test_scripted(make: Callable[[nn.Module], nn.Module]) -> None:
    trace = undisturbed(partial(Scripted, make), step)
    assert [call.module for call in trace] == ["block"]
    assert "inner" in [one.module for one in trace.unseen]
    assert all(one.reason for one in trace.unseen)


def test_a_scripted_function_is_named() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT).softmax(-1) @ v

    scripted = torch.jit.script(attend)

    def run(model: nn.Module) -> Any:
        return model(sample())

    def build() -> nn.Module:
        return Block(lambda q, k, v, *_, **__: scripted(q, k, v))

    trace = undisturbed(build, run)
    assert len(trace) == 0
    assert len(trace.unseen) >= 1


def test_exported() -> None:
    def run(model: nn.Module) -> Any:
        program = torch.export.export(model.eval(), (sample(),))
        return program.module()(torch.ones(2, 5, 16)), len(program.graph.nodes)

    undisturbed(Block, run)


def test_traced_by_fx() -> None:
    class Small(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.mT).softmax(-1) @ x

    def run(model: nn.Module) -> Any:
        graph = torch.fx.symbolic_trace(model)
        return graph(sample()), graph.code

    assert len(undisturbed(Small, run)) == 1


def test_tracing_inside_a_recording() -> None:
    def run(model: nn.Module) -> Any:
        made = torch.jit.trace(model.eval(), sample(), check_trace=False)
        return [node.kind() for node in made.inlined_graph.nodes()], made(torch.ones(2, 5, 16))

    undisturbed(partial(Block, fused), run)
    undisturbed(Block, run)


def test_proxies() -> None:
    def run(model: nn.Module) -> Any:
        made = make_fx(model.eval())(sample())
        return made.code, made(torch.ones(2, 5, 16))

    undisturbed(Block, run)


def test_scripting_inside_a_recording() -> None:
    def run(model: nn.Module) -> Any:
        inner = torch.jit.script(nn.Linear(16, 16))
        return model(inner(sample()))

    assert len(undisturbed(Block, run)) == 1
