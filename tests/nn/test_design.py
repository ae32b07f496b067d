"""A design is data: each model of it has parts of its own, and its mask does what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.errors import InputError
from attnscope.nn import (
    Causal,
    CausalLanguageModel,
    Design,
    EncoderDecoder,
    KeyValueCache,
    LearnedPositions,
    Mask,
    Prefix,
    Rotary,
    Sampling,
    Sinks,
    T5Bias,
    Window,
    init,
    next_token_loss,
)
from attnscope.nn.masks import holds

BASE = Design(vocabulary=23, width=32, heads=4, scheme=init.XavierUniform())


def ids(batch: int = 2, length: int = 6) -> Tensor:
    return torch.randint(0, 23, (batch, length))


def model(mask: Mask) -> CausalLanguageModel:
    return CausalLanguageModel(replace(BASE, attention={"mask": mask})).eval()


# -- parts of its own -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CausalLanguageModel, EncoderDecoder])
@pytest.mark.parametrize("name", ["positions", "sinks"])
def test_a_second_model_leaves_the_first_alone(*, kind: Any, name: str) -> None:
    part = T5Bias(4, both_ways=False) if name == "positions" else Sinks(4)
    design = replace(BASE, positions="none", attention={name: part})
    given = {key: value.clone() for key, value in part.state_dict().items()}
    first = kind(design)
    before = {key: value.clone() for key, value in first.state_dict().items()}
    second = kind(design)
    second.double()
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.fill_(7)
    assert all(torch.equal(value, before[key]) for key, value in first.state_dict().items())
    assert all(torch.equal(value, given[key]) for key, value in part.state_dict().items())
    shared = {p.data_ptr() for p in first.parameters()} & {
        p.data_ptr() for p in second.parameters()
    }
    assert not shared


def test_each_stack_shares_its_own() -> None:
    both: Any = EncoderDecoder(replace(BASE, positions="none", attention={"positions": T5Bias(4)}))
    stacks = [{id(layer.self_attn.positions) for layer in s} for s in (both.encoder, both.decoder)]
    assert [len(stack) for stack in stacks] == [1, 1]
    assert stacks[0] != stacks[1]


def test_a_module_under_two_names_stays_one() -> None:
    cap = nn.Tanh()
    made: Any = CausalLanguageModel(replace(BASE, attention={"scores": cap, "sinks": None}))
    assert made.layers[0].self_attn.scores is made.layers[1].self_attn.scores is not cap


# -- masks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 4])
def test_a_prefix_is_seen_by_all_and_the_rest_is_causal(length: int) -> None:
    made, tokens = model(Causal() | Prefix(length)), ids()
    logits = made(tokens).logits
    for place in range(6):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % 23
        differs = (made(changed).logits - logits).abs().amax((0, 2)) > 1e-5
        first = 0 if place < length else place
        assert differs.tolist() == [other >= first for other in range(6)], place


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (Window(3), [2, 3, 4]),
        (Prefix(2), [0, 1]),
        (Window(2) | Prefix(1), [0, 3, 4]),
        (Causal() & Window(2), [3, 4]),
        (Causal() & (Window(2) | Prefix(1)), [0, 3, 4]),
    ],
)
def test_without_a_prefix_no_token_sees_a_later_one(*, given: Mask, seen: list[int]) -> None:
    attention: Any = model(given).layers[0].self_attn
    visible = attention.mask.visible(torch.arange(4, 5), torch.arange(6))[0, 0, 0]
    assert visible.nonzero().flatten().tolist() == seen


@pytest.mark.parametrize("sides", [(3, 0), (0, 3), (1, 2)])
@pytest.mark.parametrize(
    "mask",
    [
        Causal() | Prefix(2),
        Causal() & Window(2),
        Causal() & (Window(2) | Prefix(1)),
        Causal() & Window(4) | Prefix(torch.tensor([2, 3])),
    ],
    ids=str,
)
def test_masks_count_real_tokens_alone(*, mask: Mask, sides: tuple[int, int]) -> None:
    made, tokens = model(mask), ids()
    real = F.pad(torch.ones_like(tokens, dtype=torch.bool), sides, value=False)
    padded = F.pad(tokens, sides, value=1)
    logits = made(padded, real=real).logits
    assert torch.allclose(logits[real].view(2, 6, 23), made(tokens).logits, atol=1e-5)
    alone = made.generate(tokens, 5)[:, 6:]
    for cached in (True, False):
        assert torch.equal(made.generate(padded, 5, real=real, cached=cached)[:, 9:], alone)


def test_padding_anywhere_with_a_window() -> None:
    """Between tokens too, in one pass and continued with a cache that keeps all."""
    made, tokens = model(Window(3)), ids()
    real = torch.tensor([[1, 1, 0, 0, 1, 0, 1, 1, 1, 0], [0, 1, 0, 1, 1, 1, 1, 0, 0, 1]]).bool()
    padded = torch.zeros(2, 10, dtype=torch.int64)
    padded[real] = tokens.flatten()
    expected = made(tokens).logits
    logits = made(padded, real=real).logits
    assert torch.allclose(logits[real].view_as(expected), expected, atol=1e-5)
    cache = [KeyValueCache() for _ in made.layers]
    pieces = [
        made(padded[:, start : start + 2], real=real[:, : start + 2], cache=cache).logits
        for start in range(0, 10, 2)
    ]
    assert torch.allclose(torch.cat(pieces, 1)[real].view_as(expected), expected, atol=1e-5)
    forgetful = made.new_cache()
    made(padded[:, :6], real=real[:, :6], cache=forgetful)
    with pytest.raises(InputError, match="padding behind real tokens"):
        made(padded[:, 6:], real=real, cache=forgetful)
    assert [cache.length for cache in forgetful] == [6, 6]


def test_the_encoder_counts_real_tokens_too() -> None:
    made = EncoderDecoder(replace(BASE, attention={"mask": Window(2)})).eval()
    source, target = ids(), ids()
    real = torch.tensor([[1, 1, 0, 0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 1, 1, 1, 0, 1]]).bool()
    padded = torch.zeros(2, 9, dtype=torch.int64)
    padded[real] = source.flatten()
    expected = made(source, target).logits
    assert torch.allclose(made(padded, target, source_real=real).logits, expected, atol=1e-5)
    alone = made.generate(source, target, 4)[:, 6:]
    for cached in (True, False):
        given = made.generate(padded, padded, 4, source_real=real, target_real=real, cached=cached)
        again = made.generate(source, source, 4, cached=cached)
        assert torch.equal(given[:, 9:], again[:, 6:])
    assert alone.shape == (2, 4)


@pytest.mark.parametrize("mask", [Causal() | Prefix(4), Causal() | Window(2)], ids=str)
def test_a_cache_that_would_change_what_is_generated_is_refused(mask: Mask) -> None:
    made, tokens = model(mask), ids(1, 3)
    cache = made.new_cache()
    made(tokens[:, :1], cache=cache)
    with pytest.raises(InputError, match="shows new tokens to some of the 1 before"):
        made(tokens[:, 1:], cache=cache)
    assert cache[0].length == 1
    with pytest.raises(InputError, match="go without: cached=False"):
        made.generate(tokens, 4)
    assert made.generate(tokens, 4, cached=False).shape == (1, 7)
    if holds(mask, Prefix):
        assert made.generate(ids(1, 4), 4).shape == (1, 8)
        padded, real = ids(1, 6), torch.tensor([[False, False, False, True, True, True]])
        with pytest.raises(InputError, match="go without: cached=False"):
            made.generate(padded, 4, real=real)


# -- what is refused ------------------------------------------------------------------------------


DESIGNS: dict[str, dict[str, Any]] = {
    "vocabulary": {"vocabulary": 0},
    "layers": {"layers": -1},
    "no layers": {"layers": 0},
    "heads": {"heads": 2.0},
    "width": {"width": True},
    "longest": {"longest": 0},
    "dropout": {"dropout": 0.1},
    "norm": {"norm": "layer"},
    "feed forward": {"feed_forward": 4},
    "positions": {"positions": Rotary()},
    "attention": {"attention": 3},
    "scheme": {"scheme": "xavier"},
    "scheme class": {"scheme": init.Normal},
}


@pytest.mark.parametrize("change", DESIGNS.values(), ids=DESIGNS)
def test_designs_that_make_no_model(change: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        replace(BASE, **change)
    assert error.value.todo


@pytest.mark.parametrize("kind", [CausalLanguageModel, EncoderDecoder])
@pytest.mark.parametrize("design", [3, {}, Design])
def test_a_model_is_made_of_a_design(*, kind: Any, design: Any) -> None:
    with pytest.raises(InputError, match="give Design"):
        kind(design)


TOKENS = torch.tensor([[1, 2, 3]])

FORWARDS: dict[str, Callable[[Any], Any]] = {
    "one axis": lambda m: m(TOKENS[0]),
    "floats": lambda m: m(TOKENS.float()),
    "booleans": lambda m: m(TOKENS.bool()),
    "list": lambda m: m([[1, 2, 3]]),
    "unknown token": lambda m: m(TOKENS + 22),
    "unknown label": lambda m: m(TOKENS, labels=TOKENS + 22),
    "negative label": lambda m: m(TOKENS, labels=-TOKENS),
    "short labels": lambda m: m(TOKENS, labels=TOKENS[:, :2]),
    "flat labels": lambda m: m(TOKENS, labels=TOKENS[0]),
    "float labels": lambda m: m(TOKENS, labels=TOKENS.float()),
    "real as list": lambda m: m(TOKENS, real=[[True] * 3]),
    "real as numbers": lambda m: m(TOKENS, real=torch.ones(1, 3)),
    "no caches": lambda m: m(TOKENS, cache=[]),
    "few caches": lambda m: m(TOKENS, cache=m.new_cache()[:1]),
    "many caches": lambda m: m(TOKENS, cache=m.new_cache() * 2),
    "one cache": lambda m: m(TOKENS, cache=m.new_cache()[:1] * 2),
    "bare cache": lambda m: m(TOKENS, cache=KeyValueCache()),
    "tuples": lambda m: m(TOKENS, cache=[(TOKENS, TOKENS)] * 2),
    "sampling": lambda m: m.generate(TOKENS, 2, sampling=1.0),
    "sampling class": lambda m: m.generate(TOKENS, 2, sampling=Sampling),
    "count": lambda m: m.generate(TOKENS, 2.0),
    "prompt": lambda m: m.generate(TOKENS[0], 2),
    "float prompt": lambda m: m.generate(TOKENS.float(), 2),
}


@pytest.mark.parametrize("run", FORWARDS.values(), ids=FORWARDS)
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_what_a_model_cannot_use(*, run: Callable[[Any], Any], positions: Any) -> None:
    made = CausalLanguageModel(replace(BASE, positions=positions)).eval()
    with pytest.raises(InputError) as error:
        run(made)
    assert error.value.todo


def test_caches_of_other_lengths_are_refused() -> None:
    made = CausalLanguageModel(BASE).eval()
    cache = made.new_cache()
    made(TOKENS, cache=cache)
    with pytest.raises(InputError, match="caches of 3, 0 tokens"):
        made(TOKENS, cache=[cache[0], made.new_cache()[1]])


@pytest.mark.parametrize(
    "bad",
    [{"labels": TOKENS + 22}, {"real": torch.ones(1, 3, dtype=torch.bool)}],
    ids=["labels", "real"],
)
def test_a_refused_forward_grows_no_cache(bad: dict[str, Any]) -> None:
    made = CausalLanguageModel(BASE).eval()
    cache = made.new_cache()
    made(TOKENS, cache=cache)
    with pytest.raises(InputError):
        made(TOKENS, cache=cache, **bad)
    made.layers[1].get_submodule("linear1").register_forward_pre_hook(lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        made(TOKENS, cache=cache)
    assert [one.length for one in cache] == [3, 3]


def test_what_an_encoder_decoder_cannot_use() -> None:
    made, memory = EncoderDecoder(BASE).eval(), torch.randn(1, 3, 32)
    bads: list[dict[str, Any]] = [
        {"labels": TOKENS[0]},
        {"cache": []},
        {"memory": memory[..., 1:]},
        {"memory": memory, "source_real": torch.ones(1, 3)},
        {"memory": memory, "source_real": torch.ones(1, 2, dtype=torch.bool)},
        {"target_real": torch.ones(1, 3)},
    ]
    for bad in bads:
        with pytest.raises(InputError):
            made(TOKENS, TOKENS, **bad)
    cache = made.new_cache()
    with pytest.raises(InputError):
        made(TOKENS, TOKENS, memory=memory[..., 1:], cache=cache)
    assert [one.length for one in cache] == [0, 0]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_labels_of_any_whole_numbers_are_the_same(dtype: torch.dtype) -> None:
    logits, labels = torch.randn(2, 4, 5), torch.randint(0, 5, (2, 4))
    assert torch.equal(next_token_loss(logits, labels.to(dtype)), next_token_loss(logits, labels))


@pytest.mark.parametrize("position", [-1, 4])
def test_positions_beyond_the_table_are_refused(position: int) -> None:
    with pytest.raises(InputError, match=f"position {position}; the table ends at 3"):
        LearnedPositions(4, 8)(torch.zeros(1, 1, 8), torch.tensor([[position]]))
    with pytest.raises(InputError, match="give whole numbers"):
        LearnedPositions(4, 8)(torch.zeros(1, 1, 8), torch.tensor([[0.5]]))
