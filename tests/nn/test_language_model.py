"""The small language model: decoding, padding, loss, and that every choice matters."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import attnscope
from attnscope.errors import InputError
from attnscope.nn import (
    CausalLanguageModel,
    Design,
    Dropouts,
    FeedForward,
    Rotary,
    Sampling,
    Sinks,
    Softcap,
    Window,
    init,
    next_token_loss,
    swiglu,
)

VOCABULARY, LENGTH = 40, 9
BASE = Design(vocabulary=VOCABULARY, width=32, heads=4, scheme=init.XavierUniform())
POSITIONS = ["learned", "sinusoidal", "rotary", "alibi", "none"]
KINDS: dict[str, Design] = {
    **{name: replace(BASE, positions=name) for name in POSITIONS},  # type: ignore[arg-type]
    "grouped": replace(BASE, attention={"kv_heads": 2, "qk_norm": nn.RMSNorm}),
    "window": replace(BASE, attention={"mask": Window(3)}),
    "capped": replace(BASE, attention={"scores": Softcap(2.0)}),
    "sunk": replace(BASE, attention=lambda: {"sinks": Sinks(4)}),
    "post": replace(BASE, placement="post"),
    "sandwich": replace(BASE, placement="sandwich"),
    "llama": replace(BASE, norm=nn.RMSNorm, feed_forward=swiglu(), bias=False, tied=False),
}


def ids(batch: int = 3, length: int = LENGTH) -> Tensor:
    return torch.randint(0, VOCABULARY, (batch, length))


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> CausalLanguageModel:
    return CausalLanguageModel(KINDS[request.param]).eval()


def test_no_token_sees_a_later_one(model: CausalLanguageModel) -> None:
    first = ids()
    second = first.clone()
    second[:, 5:] = ids()[:, 5:]
    before, after = model(first).logits, model(second).logits
    assert torch.allclose(before[:, :5], after[:, :5], atol=1e-5)
    assert not torch.allclose(before[:, 5:], after[:, 5:], atol=1e-2)


def test_decoding_by_steps_is_the_full_pass(model: CausalLanguageModel) -> None:
    tokens = ids()
    full = model(tokens).logits
    cache = model.new_cache()
    pieces = [model(part, cache=cache).logits for part in tokens.split([4, 1, 1, 3], 1)]
    assert torch.allclose(torch.cat(pieces, 1), full, atol=1e-5)
    assert cache[0].length == LENGTH


def test_the_cache_changes_no_token(model: CausalLanguageModel) -> None:
    tokens = ids()
    assert torch.equal(model.generate(tokens, 6), model.generate(tokens, 6, cached=False))
    drawn = [
        model.generate(
            tokens,
            6,
            sampling=Sampling(1.5, top_k=7, generator=torch.Generator().manual_seed(2)),
            cached=cached,
        )
        for cached in (True, False)
    ]
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], model.generate(tokens, 6))


@pytest.mark.parametrize("name", KINDS)
def test_padding_on_either_side_changes_no_real_token(name: str) -> None:
    model = CausalLanguageModel(KINDS[name]).eval()
    tokens = ids()
    left = F.pad(tokens, (3, 0), value=1)
    right = F.pad(tokens, (0, 3), value=1)
    expected = model(tokens).logits
    for padded, sides in ((left, (3, 0)), (right, (0, 3))):
        real = F.pad(torch.ones_like(tokens, dtype=torch.bool), sides, value=False)
        logits = model(padded, real=real).logits
        assert bool(logits.isfinite().all())
        assert torch.allclose(logits[real].view_as(expected), expected, atol=1e-5)
    mixed = torch.stack([left[0], right[1], F.pad(tokens[2], (1, 2), value=1)])
    real = torch.zeros(3, LENGTH + 3, dtype=torch.bool)
    for row, start in enumerate((3, 0, 1)):
        real[row, start : start + LENGTH] = True
    alone = model.generate(tokens, 5)[:, LENGTH:]
    for cached in (True, False):
        together = model.generate(mixed, 5, real=real, cached=cached)
        assert torch.equal(together[:, LENGTH + 3 :], alone)


@pytest.mark.parametrize("position", POSITIONS)
def test_each_kind_of_position_makes_order_matter_but_none(position: str) -> None:
    model = CausalLanguageModel(KINDS[position]).eval()
    tokens = torch.tensor([[1, 2, 3, 4, 5, 6]])
    swapped = torch.tensor([[2, 1, 4, 3, 5, 6]])
    last, other = model(tokens).logits[:, -1], model(swapped).logits[:, -1]
    one_layer = CausalLanguageModel(replace(KINDS[position], layers=1)).eval()
    if position == "none":  # a causal mask alone tells order from the second layer on
        last, other = one_layer(tokens).logits[:, -1], one_layer(swapped).logits[:, -1]
        assert torch.allclose(last, other, atol=1e-5)
    else:
        assert not torch.allclose(last, other, atol=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"positions": "alibi"},
        {"placement": "post"},
        {"placement": "sandwich"},
        {"norm": nn.RMSNorm},
        {"feed_forward": FeedForward(activation="relu")},
        {"feed_forward": swiglu()},
        {"tied": False},
        {"bias": False},
        {"layers": 3},
        {"heads": 8},
        {"width": 64},
        {"scheme": init.Normal()},
        {"scheme": None},
        {"attention": {"kv_heads": 1}},
        {"attention": {"positions": Rotary(base=100.0)}},
        {"attention": {"scale": 1.0}},
    ],
    ids=str,
)
def test_each_choice_matters(change: dict[str, Any]) -> None:
    tokens = ids()
    logits = []
    for design in (BASE, replace(BASE, **change)):
        torch.manual_seed(7)
        model = CausalLanguageModel(design).eval()
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                nn.init.constant_(parameter, 0.3)
        logits.append(model(tokens).logits)
    assert not torch.allclose(logits[0], logits[1], atol=1e-4)


@pytest.mark.parametrize("place", ["weights", "residual", "feed_forward", "embedding"])
def test_each_place_of_dropout_acts_in_training_alone(place: str) -> None:
    model = CausalLanguageModel(replace(BASE, dropout=Dropouts(**{place: 0.5})))
    plain = CausalLanguageModel(BASE)
    plain.load_state_dict(model.state_dict())
    tokens = ids()
    assert not torch.allclose(model(tokens).logits, plain(tokens).logits)
    assert torch.equal(model.eval()(tokens).logits, plain.eval()(tokens).logits)


def test_the_loss_is_the_mean_surprise_of_the_next_token() -> None:
    model = CausalLanguageModel(BASE).eval()
    tokens = ids()
    output = model(tokens, labels=tokens)
    surprise = [
        -output.logits[b, t].log_softmax(-1)[tokens[b, t + 1]]
        for b in range(3)
        for t in range(LENGTH - 1)
    ]
    assert torch.allclose(output.loss, torch.stack(surprise).mean())
    assert model(tokens).loss is None


def test_labels_of_minus_100_are_left_out() -> None:
    logits = torch.randn(2, 4, 5)
    labels = torch.tensor([[0, 1, -100, 3], [2, -100, -100, -100]])
    kept = [(0, 0, 1), (0, 2, 3)]
    expected = torch.stack([-logits[b, t].log_softmax(-1)[label] for b, t, label in kept]).mean()
    assert torch.allclose(next_token_loss(logits, labels), expected)
    assert float(next_token_loss(logits, torch.full((2, 4), -100))) == 0


def test_a_first_model_knows_nothing() -> None:
    model = CausalLanguageModel(Design(vocabulary=VOCABULARY)).eval()
    tokens = ids(16, 20)
    assert float(model(tokens, labels=tokens).loss.detach()) == pytest.approx(
        math.log(VOCABULARY), abs=0.05
    )


def test_it_learns() -> None:
    model = CausalLanguageModel(Design(vocabulary=8, width=32))
    tokens = (torch.arange(12) % 8).expand(4, -1)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(40):
        loss = model(tokens, labels=tokens).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.1
    assert all(parameter.grad is not None for parameter in model.parameters())
    found = model.eval().generate(tokens[:1, :4], 6)
    assert found.tolist() == [[0, 1, 2, 3, 4, 5, 6, 7, 0, 1]]


def test_tied_embeddings_are_one_parameter_also_in_a_copy() -> None:
    model = copy.deepcopy(CausalLanguageModel(BASE))
    assert model.head.weight is model.embed.tokens.weight
    untied = CausalLanguageModel(replace(BASE, tied=False))
    assert untied.head.weight is not untied.embed.tokens.weight


def test_a_shared_module_is_one_and_a_function_makes_one_a_layer() -> None:
    shared: Any = CausalLanguageModel(replace(BASE, attention={"sinks": Sinks(4)}))
    own: Any = CausalLanguageModel(replace(BASE, attention=lambda: {"sinks": Sinks(4)}))
    assert len({id(layer.self_attn.sinks) for layer in shared.layers}) == 1
    assert len({id(layer.self_attn.sinks) for layer in own.layers}) == 2


def test_a_model_is_traced_like_any_other(model: CausalLanguageModel) -> None:
    trace = attnscope.trace(model, ids())
    assert [call.module for call in trace] == ["layers.0.self_attn", "layers.1.self_attn"]
    for call in trace:
        assert "causal" in call.recipe.mask.kind
        assert call.replay_error is not None
        assert call.replay_error < 1e-4
        assert not call.recipe.unknown


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="positions='rope'; use one of learned"):
        Design(vocabulary=5, positions="rope")  # type: ignore[arg-type]
    model = CausalLanguageModel(replace(BASE, positions="learned", longest=4))
    with pytest.raises(InputError, match="position 8; the table ends at 3"):
        model(ids())
    with pytest.raises(InputError, match="1/0 numbers"):
        model(ids(), real=torch.ones(3, LENGTH))
