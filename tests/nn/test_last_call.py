"""`last_call` is the call of the latest forward: the same that recording it would have given."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.calls import Call
from attnscope.errors import ReplayError
from attnscope.nn import (
    Causal,
    MultiheadAttention,
    Rotary,
    Sinks,
    Softcap,
    T5Bias,
    Window,
)

B, T, E, H = 2, 6, 16, 4

NAMES = ("q", "k", "v")

PARTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "dropout": {"dropout": 0.4},
    "many": {
        "kv_heads": 2,
        "dropout": 0.2,
        "positions": Rotary(),
        "mask": Causal() & Window(4),
        "qk_norm": nn.RMSNorm,
        "scores": Softcap(5.0),
        "sinks": Sinks(H),
    },
    "t5": {"positions": T5Bias(H), "add_bias_kv": True},
}


def tokens(**kind: Any) -> Tensor:
    return torch.randn(B, T, E, **kind)


def module(**parts: Any) -> MultiheadAttention:
    return MultiheadAttention(E, H, batch_first=True, **parts)


def same(a: Call, b: Call) -> bool:
    tensors = [(getattr(a, n), getattr(b, n)) for n in NAMES]
    tensors += [(a.weights(), b.weights()), (a.scores(), b.scores()), (a.context(), b.context())]
    return a.kind == b.kind and all(torch.equal(x, y) for x, y in tensors)


WORLDS: dict[str, Callable[[], Any]] = {
    "grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


# nn.RMSNorm says so itself, where autocast hands it half precision
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning")
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_it_is_the_recorded_call(
    *, parts: dict[str, Any], need_weights: bool, train: bool, world: Callable[[], Any]
) -> None:
    made, x = module(**parts).train(train), tokens()
    padding = torch.arange(T) >= torch.tensor([[T], [4]])
    with world():
        torch.manual_seed(3)
        with attnscope.record(made) as trace:
            made(x, x, x, padding, need_weights)
        torch.manual_seed(3)
        made(x, x, key_padding_mask=padding, need_weights=need_weights, value=x)
    torch.manual_seed(9)
    before = torch.get_rng_state()
    made.train(not train)
    call = made.last_call
    assert made.training != train
    assert torch.equal(torch.get_rng_state(), before)
    (recorded,) = trace
    assert same(call, recorded)
    assert call.replay_error == recorded.replay_error
    assert call.recipe.dropout == recorded.recipe.dropout


@pytest.mark.parametrize("parts", [{}, {"positions": T5Bias(H)}], ids=["plain", "t5"])
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_paths_are_taken_as_they_were(
    *, parts: dict[str, Any], frozen: bool, need_weights: bool
) -> None:
    """PyTorch asks whether an input wants a gradient: the references answer as the inputs did."""
    made, x = module(**parts).eval(), tokens(requires_grad=True)
    if frozen:
        made.requires_grad_(requires_grad=False)
    with attnscope.record(made) as trace:
        made(x, x, x, need_weights=need_weights)
    made(x, x, x, need_weights=need_weights)
    assert trace[0].kind in {"eager", "sdpa"}
    assert same(made.last_call, trace[0])
    assert x.grad is None


def test_it_is_made_once_and_again_after_the_next_forward() -> None:
    made, x, y = module(), tokens(), tokens()
    made(x, x, x)
    first = made.last_call
    assert made.last_call is first
    made(y, y, y)
    assert made.last_call is not first
    assert not torch.equal(made.last_call.q, first.q)


def test_it_has_the_line_of_the_forward_and_not_of_the_question() -> None:
    made, x = module(mask=Causal()), tokens()
    made(x, x, x)  # this line
    source = made.last_call.source
    assert source.file == __file__
    assert "# this line" in Path(__file__).read_text(encoding="utf-8").splitlines()[source.line - 1]
    assert source.function == "test_it_has_the_line_of_the_forward_and_not_of_the_question"


def test_each_step_of_decoding_has_its_call() -> None:
    made, x = module(mask=Causal() & Window(3), positions=Rotary(), kv_heads=2), tokens()
    made(x, x, x)
    whole, cache = made.last_call, made.new_cache()
    for i in range(T):
        new = x[:, i : i + 1]
        made(new, new, new, cache=cache)
        call = made.last_call
        assert (call.queries, call.keys) == (1, min(i + 1, 4))
        assert made._last is not None
        assert same(made._last._run(made), call)  # what it was made of has stayed as it was
        assert call.replay_error == 0.0
        seen = call.weights()[..., -3:]
        wanted = whole.weights()[:, :, i : i + 1, max(0, i - 2) : i + 1]
        assert torch.allclose(seen, wanted, atol=1e-6)
        assert cache.length == i + 1  # asking did not grow it


def test_inside_a_recording_it_is_not_recorded() -> None:
    made, x = module(), tokens()
    with attnscope.record(made) as trace:
        made(x, x, x)
        call = made.last_call
        made(x, x, x)
    assert len(trace) == 2
    assert same(call, trace[0])


def test_hooks_of_the_user_are_not_called_by_asking() -> None:
    made, x, calls = module(), tokens(), []
    made.register_forward_hook(lambda *_: calls.append("after"))
    made.register_forward_pre_hook(lambda *_: calls.append("before"))
    made(x, x, x)
    assert made.last_call.queries == T
    assert calls == ["before", "after"]


def test_arguments_that_a_hook_changed_are_those_that_count() -> None:
    made, x = module(), tokens()
    made.register_forward_pre_hook(lambda _, args: tuple(2 * arg for arg in args))
    made(x, x, x)
    plain = module()
    plain.load_state_dict(made.state_dict())
    plain(2 * x, 2 * x, 2 * x)
    assert torch.allclose(made.last_call.q, plain.last_call.q)


# -- at no cost when not asked ------------------------------------------------------------------


def test_nothing_is_kept_but_the_arguments_and_those_until_the_next_forward() -> None:
    made = module(**PARTS["many"])
    base = tokens(requires_grad=True)
    x = base * 2
    made_by = weakref.ref(x)  # the tensor, which carries its graph
    output, weights = made(x, x, x)
    held = [weakref.ref(tensor) for tensor in (output, weights)]
    del x, output, weights
    gc.collect()
    assert [ref() for ref in held] == [None, None]
    assert made_by() is None
    last = made._last
    assert last is not None
    assert last.args[0].grad_fn is None
    assert last.args[0] is last.args[1]
    argument = weakref.ref(last.args[0])
    del last
    y = tokens()
    made(y, y, y)
    gc.collect()
    assert argument() is None


def test_no_copies() -> None:
    made, x = module(), tokens(requires_grad=True)
    made(x, x, x)
    assert made._last is not None
    assert made._last.args[0].data_ptr() == x.data_ptr()


def test_a_forward_that_fails_leaves_nothing() -> None:
    made, x = module(), tokens()
    made(x, x, x)
    with pytest.raises(ValueError, match="attending"):
        made(x, x, x[:1])
    assert made._last is None


@pytest.mark.parametrize(
    "twin", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_and_pickles_do_not_have_it(twin: Callable[[Any], Any]) -> None:
    made, x = module(), tokens()
    size = len(pickle.dumps(made))
    made(x, x, x)
    assert made.last_call.queries == T
    assert len(pickle.dumps(made)) == size
    assert twin(made)._last is None
    assert made._last is not None
    assert set(made.state_dict()) == set(nn.MultiheadAttention(E, H).state_dict())


# -- where it can't be had ----------------------------------------------------------------------


def refusal(made: MultiheadAttention) -> ReplayError:
    with pytest.raises(ReplayError) as error:
        _ = made.last_call
    assert error.value.doing == "making the call of the latest forward"
    assert "attnscope.record(module)" in error.value.todo
    return error.value


def test_before_any_forward() -> None:
    assert "no forward of this module" in refusal(module()).found


def test_after_an_argument_was_changed() -> None:
    made, x = module(), tokens()
    made(x, x, x)
    x.add_(1)
    assert "an argument of it was changed" in refusal(made).found
    mask = torch.zeros(T, T)
    made(x, x, x, attn_mask=mask)
    mask[0, 1] = -torch.inf
    assert "an argument of it was changed" in refusal(made).found


def swap(made: MultiheadAttention) -> None:
    made.out_proj.weight = nn.Parameter(made.out_proj.weight.detach().clone())


CHANGES: dict[str, Callable[[MultiheadAttention], Any]] = {
    "optimizer": lambda m: [
        m(*[tokens()] * 3)[0].sum().backward(),
        m(*[tokens()] * 3),
        torch.optim.SGD(m.parameters(), 0.1).step(),
    ],
    "loaded": lambda m: m.load_state_dict(m.state_dict()),
    "another type": lambda m: m.double(),
    "data": lambda m: setattr(m.in_proj_weight, "data", torch.zeros_like(m.in_proj_weight)),
    "another parameter": swap,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_after_a_parameter_was_changed(change: Callable[[MultiheadAttention], Any]) -> None:
    made, x = module(), tokens()
    made(x, x, x)
    change(made)
    assert "a parameter of the module was changed" in refusal(made).found


def test_a_call_that_was_made_stays() -> None:
    made, x = module(), tokens()
    made(x, x, x)
    call = made.last_call
    weights = call.weights().clone()
    with torch.no_grad():
        made.in_proj_weight.zero_()
    assert made.last_call is call
    assert torch.equal(call.weights(), weights)


def compiled(made: nn.Module, x: Tensor) -> None:
    torch.compile(made, backend="eager", fullgraph=True)(x, x, x)


def mapped(made: nn.Module, x: Tensor) -> None:
    torch.vmap(lambda y: made(y, y, y)[0])(x[None])


def differentiated(made: nn.Module, x: Tensor) -> None:
    def loss(parameters: dict[str, Tensor]) -> Tensor:
        output: Tensor = torch.func.functional_call(made, parameters, (x, x, x))[0]
        return output.sum()

    torch.func.grad(loss)(dict(made.named_parameters()))


@pytest.mark.parametrize("forward", [compiled, mapped, differentiated])
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_a_forward_that_pytorch_transforms_leaves_nothing(
    *, parts: dict[str, Any], forward: Callable[[nn.Module, Tensor], None]
) -> None:
    made, x = module(**parts).eval(), tokens()
    made(x, x, x)
    forward(made, x)
    assert "compiled, traced, mapped" in refusal(made).found


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit.trace_method` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Converting a tensor:torch.jit.TracerWarning")
def test_traced_by_jit() -> None:
    made, x = module(**PARTS["t5"]).eval(), tokens()
    traced = torch.jit.trace(made, (x, x, x))
    assert torch.allclose(traced(x, x, x)[0], made(x, x, x)[0], atol=1e-6)


def test_exporting_is_no_forward() -> None:
    made, x = module(**PARTS["many"]).eval(), tokens()
    made(x, x, x)
    exported = torch.export.export(made, (x, x, x)).module()
    assert torch.allclose(exported(x, x, x)[0], made(x, x, x)[0], atol=1e-6)
    assert made.last_call.queries == T


def test_reading_all_attributes_asks_for_nothing() -> None:
    made = module()
    assert "last_call" not in dict(inspect.getmembers(made))
    assert "forward" in dir(made)


def test_tensors_without_values_leave_nothing() -> None:
    made, x = module(device="meta"), tokens(device="meta")
    assert made(x, x, x)[0].shape == (B, T, E)
    assert "no forward of this module" in refusal(made).found


class Labelled(Tensor):
    """A tensor class of the user's own."""


def test_tensors_of_another_class_leave_nothing() -> None:
    made, x = module(), tokens().as_subclass(Labelled)
    made(x, x, x)
    assert "no forward of this module" in refusal(made).found


def test_a_backward_is_seen_by_record_alone() -> None:
    made, x = module(), tokens()
    made(x, x, x)[0].sum().backward()
    with pytest.raises(ReplayError):
        made.last_call.grad("q")


def test_inside_a_larger_model_it_is_the_last_of_several_forwards() -> None:
    made = module(mask=Causal())
    x = tokens()
    y = made(x, x, x)[0]
    made(y, y, y)
    with attnscope.record(made) as trace:
        made(y, y, y)
    assert same(made.last_call, trace[0])
    with torch.no_grad():
        made(x[:, :2], x[:, :2], x[:, :2])
    assert made.last_call.queries == 2
