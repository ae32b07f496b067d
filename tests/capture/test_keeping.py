"""How much of a call is kept: what `keep` and `device` promise about memory and values."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import attnscope
from attnscope.calls import Call, Trace
from attnscope.calls.evidence import NAMES
from attnscope.capture.gradients import Cotangent
from attnscope.capture.keeping import Keep, keep_only
from attnscope.capture.moving import _unless_it_draws
from attnscope.errors import ReplayError
from tests.styles import STYLES, Style

HIDDEN = ("raw", "scores", "masked", "weights")


class ByHand(nn.Module):
    """Hand-written causal attention with a bias; it notes, weakly, every tensor that it makes."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.dropout = dropout
        self.made: dict[str, weakref.ref[Tensor]] = {}

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        raw = q @ k.mT
        scores = raw / 2 + torch.linspace(0, 1, raw.shape[-1], device=x.device) * seen
        masked = scores.masked_fill(~seen, -math.inf)
        weights = masked.softmax(-1)
        context = functional.dropout(weights, self.dropout, self.training) @ v
        made = {"q": q, "k": k, "v": v, "raw": raw, "scores": scores, "masked": masked}
        made |= {"weights": weights, "context": context, "seen": seen}
        self.made = {name: weakref.ref(tensor) for name, tensor in made.items()}
        return self.out(context.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def alive(self) -> set[str]:
        gc.collect()
        return {name for name, reference in self.made.items() if reference() is not None}


class Fused(nn.Module):
    """The fused kernel with a boolean mask for all pairs."""

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.rand(x.shape[-2], x.shape[-2], device=x.device) > 0.3
        seen.fill_diagonal_(fill_value=True)
        return functional.scaled_dot_product_attention(x + 1, x + 2, x + 3, attn_mask=seen)


def inputs() -> Tensor:
    return torch.randn(2, 9, 16)


def run(style: Style, keep: Any) -> tuple[Trace, Tensor]:
    torch.manual_seed(0)
    model, given = style.build(), style.inputs()
    torch.manual_seed(1)
    if isinstance(given, dict):
        trace = attnscope.trace(model, **given, keep=keep)
    else:
        trace = attnscope.trace(model, *given, keep=keep)
    return trace, torch.get_rng_state()


def numbers(call: Call) -> str:
    try:
        return repr(call.numbers())
    except ReplayError:
        return "none"


# -- keep="numbers" -------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_numbers_are_those_of_the_whole_call(style: Style) -> None:
    (whole, before), (reduced, after) = run(style, "qkv"), run(style, "numbers")
    assert torch.equal(before, after)
    for call, small in zip(whole, reduced, strict=True):
        assert numbers(small) == numbers(call)
        assert repr(small.replay_error) == repr(call.replay_error)
        assert repr(small.recipe.to_json()) == repr(call.recipe.to_json())
        assert small.evidence.sizes == call.evidence.sizes
        assert small.shapes().rows[0] == call.shapes().rows[0]


def tensors_in(tree: object, seen: set[int]) -> list[Tensor]:
    """Return every tensor that can be reached from `tree`, modules and types left out."""
    if id(tree) in seen or isinstance(tree, (type, nn.Module, type(gc))) or callable(tree):
        return []
    seen.add(id(tree))
    found = [tree] if isinstance(tree, Tensor) else []
    for other in gc.get_referents(tree):
        found += tensors_in(other, seen)
    return found


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_numbers_hold_no_large_tensor(*, fused: bool, grad: bool) -> None:
    model = Fused() if fused else ByHand()
    x = torch.randn(2, 3, 9, 16) if fused else inputs()
    with torch.set_grad_enabled(grad), attnscope.record(model, keep="numbers") as trace:
        output = model(x.requires_grad_(grad))
        if grad:
            output.sum().backward()
    kept = [tensor for tensor in tensors_in(trace, set()) if not tensor.is_meta]
    assert sum(tensor.untyped_storage().nbytes() for tensor in kept) <= 9 * 4
    assert trace[0].replay_error is not None
    assert trace[0].replay_error < 1e-6


def test_numbers_keep_the_shape_of_a_mask_and_a_bias() -> None:
    whole = attnscope.trace(ByHand(), inputs())[0].recipe
    recipe = attnscope.trace(ByHand(), inputs(), keep="numbers")[0].recipe
    assert recipe.mask.kind == "causal"
    assert recipe.mask.dense(9, 9).shape == (1, 1, 9, 9)
    assert whole.bias is not None
    assert recipe.bias is not None
    assert recipe.bias.shape == whole.bias.shape
    torch.manual_seed(0)
    fused = attnscope.trace(Fused(), torch.randn(2, 3, 9, 16), keep="numbers")[0].recipe
    assert fused.mask.tensor is not None
    assert fused.mask.tensor.is_meta
    assert (fused.mask.kind, fused.mask.visible < 1) == ("custom", True)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_have_no_tensors_and_say_so(name: str) -> None:
    with attnscope.record(model := ByHand(), keep="numbers") as trace:
        model(inputs()).sum().backward()
    call = trace[0]
    with pytest.raises(
        ReplayError, match=f'reading {name}: keep="numbers" .*; record with keep="q'
    ):
        call.evidence.value(name)
    with pytest.raises(ReplayError, match='keep="numbers" kept no tensors'):
        call.grad(name)  # type: ignore[arg-type]
    with pytest.raises(ReplayError, match="reading the weights"):
        next(iter(call.evidence.weight_blocks()))


def test_numbers_leave_outputs_gradients_and_random_numbers_alone() -> None:
    def train(*, watched: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model, x = ByHand(dropout=0.3), inputs()
        if watched:
            with attnscope.record(model, keep="numbers"):
                output = model(x)
                output.sum().backward()
        else:
            output = model(x)
            output.sum().backward()
        found = [output, torch.rand(4)]
        return found + [p.grad for p in model.parameters() if p.grad is not None]

    for plain, seen in zip(train(watched=False), train(watched=True), strict=True):
        assert torch.equal(plain, seen)


def test_numbers_of_a_call_without_values() -> None:
    model = ByHand().to("meta")
    call = attnscope.trace(model, inputs().to("meta"), keep="numbers")[0]
    assert (call.heads, call.queries, call.replay_error) == (4, 9, None)
    assert call.shapes().rows
    with pytest.raises(ReplayError):
        call.numbers()


# -- lifetimes ------------------------------------------------------------------------------------


def test_what_has_queries_and_keys_is_freed_as_without_recording() -> None:
    model = ByHand()
    with torch.no_grad(), attnscope.record(model) as trace:
        output = model(inputs())
        assert not model.alive() & set(HIDDEN)
    assert torch.equal(trace[0].weights().sum(-1).round(), torch.ones(2, 4, 9))
    del output


@pytest.mark.parametrize("keep", ["qkv", "numbers"])
def test_under_autograd_nothing_lives_longer(keep: Any) -> None:
    plain = ByHand()
    output = plain(inputs())
    expected = plain.alive() & set(HIDDEN)
    output.sum().backward()
    del output
    model = ByHand()
    with attnscope.record(model, keep=keep) as trace:
        output = model(inputs())
        assert model.alive() & set(HIDDEN) == expected
        output.sum().backward()
        del output
        assert not model.alive() & set(HIDDEN)
    assert len(trace) == 1


def test_numbers_let_go_of_everything() -> None:
    model = ByHand()
    with torch.no_grad(), attnscope.record(model, keep="numbers") as trace:
        model(inputs())
        first = dict(model.made)
        model(inputs())
        gc.collect()
        assert not [name for name, reference in first.items() if reference() is not None]
    assert len(trace) == 2
    assert not model.alive()


def test_numbers_take_no_memory_for_the_gradient() -> None:
    elsewhere = [one for one in gc.get_objects() if type(one) is Cotangent]  # traces of other tests
    known = set(map(id, elsewhere))
    with attnscope.record(model := ByHand(), keep="numbers") as trace:
        model(inputs()).sum().backward()
        alive = [one for one in gc.get_objects() if type(one) is Cotangent]
        waiting = [one for one in alive if id(one) not in known]
        assert waiting
        assert all(one._gradient is None for one in waiting)
    assert len(trace) == 1


def test_all_keeps_scores_and_weights() -> None:
    model = ByHand()
    with torch.no_grad():
        trace = attnscope.trace(model, inputs(), keep="all")
    assert {"masked", "weights"} <= model.alive()
    weights = model.made["weights"]()
    assert weights is not None
    assert trace[0].weights().data_ptr() == weights.data_ptr()


# -- device ---------------------------------------------------------------------------------------


def values(trace: Trace) -> list[Tensor]:
    return [call.evidence.value(name) for call in trace for name in NAMES]


@pytest.mark.parametrize("model", [ByHand(), Fused()], ids=["eager", "fused"])
def test_tensors_that_are_there_already_are_not_copied(model: nn.Module) -> None:
    x = inputs() if isinstance(model, ByHand) else torch.randn(2, 3, 9, 16)
    torch.manual_seed(0)
    plain = attnscope.trace(model, x)
    torch.manual_seed(0)
    moved = attnscope.trace(model, x, device="cpu")
    for before, after in zip(values(plain), values(moved), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("model", [ByHand(), Fused()], ids=["eager", "fused"])
def test_everything_moves_and_the_proof_stays(model: nn.Module) -> None:
    x = inputs() if isinstance(model, ByHand) else torch.randn(2, 3, 9, 16)
    trace = attnscope.trace(model, x, device="meta")
    call = trace[0]
    assert call.replay_error is not None
    assert call.replay_error < 1e-6
    for name in ("q", "k", "v", "context"):
        assert call.evidence.value(name).device.type == "meta"
    kept = tensors_in(trace.calls, set())
    assert all(x.is_meta for x in kept if x.is_floating_point() and x.numel() > call.keys)
    assert call.shapes().rows


def test_a_call_that_moves_back_is_derived_again() -> None:
    """On the way a device argument of a recorded operation is exchanged, too."""

    class Casts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            weights = (x @ x.mT).to("cpu").to(device=torch.device("cpu")).softmax(-1)
            return weights @ x

    trace = attnscope.trace(Casts(), torch.randn(1, 2, 5, 4), device="meta")
    assert trace[0].weights().device.type == "meta"


def test_a_call_that_moved_does_not_draw_other_random_numbers() -> None:
    state = torch.get_rng_state()
    x = torch.ones(50)
    kept = _unless_it_draws(functional.dropout, torch.device("cpu"), x, 0.5, training=False)
    assert torch.equal(kept, x)
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ReplayError, match=r"it drew random numbers .* record without device="):
        _unless_it_draws(functional.dropout, torch.device("cpu"), x, 0.5)


def test_gradients_arrive_where_the_call_is_kept() -> None:
    model = ByHand()
    with attnscope.record(model, device="meta") as trace:
        model(inputs()).sum().backward()
    assert trace[0].grad("context").is_meta
    assert trace[0].grad("q").shape == (2, 4, 9, 4)


def test_keeping_all_on_the_same_device_changes_nothing() -> None:
    call = attnscope.trace(ByHand(), inputs())[0]
    evidence = call.evidence
    keep_only(call, Keep("all", torch.device("cpu")))
    keep_only(call, Keep("qkv"))
    assert call.evidence is evidence
    assert call.replay_error == 0.0
