"""Decoding with a cache, step by step, gives what the full pass gives."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.errors import InputError
from attnscope.nn import (
    ALiBi,
    Causal,
    Documents,
    KeyValueCache,
    Mask,
    MultiheadAttention,
    Padding,
    Positions,
    Prefix,
    Rotary,
    ShawKeys,
    Sinks,
    T5Bias,
    Window,
)

B, T, E, H = 2, 9, 16, 4
close = partial(torch.allclose, rtol=1e-12, atol=1e-13)

POSITIONS: dict[str, Positions | None] = {
    "none": None,
    "rotary": Rotary(),
    "rotary interleaved": Rotary(pairing="interleaved", share=0.5),
    "alibi": ALiBi(),
    "t5": T5Bias(H, both_ways=False),
    "shaw": ShawKeys(E // H, 3),
}
MASKS: dict[str, Mask] = {
    "causal": Causal(),
    "bottom right": Causal("bottom-right"),
    "window": Causal() & Window(3),
    "window of one": Causal() & Window(1),
    "prefix": Causal() | Prefix(2),
}
STEPS = {"ones": [1] * T, "prompt": [4, 1, 1, 1, 1, 1], "chunks": [3, 4, 2], "whole": [T]}


def module(**parts: Any) -> MultiheadAttention:
    return MultiheadAttention(E, H, batch_first=True, kv_heads=2, **parts).double()


def tokens() -> Tensor:
    return torch.randn(B, T, E, dtype=torch.float64)


def always(value: Any) -> Callable[[int, int], Any]:
    return lambda *_: value


def decoded(made: MultiheadAttention, x: Tensor, steps: list[int], **asked: Any) -> Tensor:
    cache, outputs, start = made.new_cache(), [], 0
    for step in steps:
        new = x[:, start : start + step]
        now = {name: give(start, start + step) for name, give in asked.items()}
        outputs.append(made(new, new, new, cache=cache, **now)[0])
        start += step
        assert cache.length == start
    return torch.cat(outputs, 1)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_decoding_is_the_full_pass(
    *, positions: Positions | None, mask: Mask, steps: list[int]
) -> None:
    if mask is MASKS["prefix"] and steps[0] < 2:
        steps = [2, *steps[2:]]  # a prefix is seen as a whole
    made, x = module(positions=positions, mask=mask, qk_norm=nn.RMSNorm), tokens()
    for need_weights in (True, False):
        whole = made(x, x, x, need_weights=need_weights)[0]
        given = decoded(made, x, steps, need_weights=always(need_weights))
        assert close(given, whole)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("window", [None, 4])
def test_with_padding_and_documents(*, steps: list[int], window: int | None) -> None:
    """Padding on the left, in torch's convention and in attnscope's, and packed documents."""
    mask = Causal() if window is None else Causal() & Window(window)
    made, x = module(positions=Rotary(), mask=mask, sinks=Sinks(H)), tokens()
    real = torch.arange(T) >= torch.tensor([[0], [3]])
    ids = torch.arange(T).div(4, rounding_mode="floor").expand(B, -1)
    positions = (real.cumsum(1) - 1).clamp_min(0)
    whole = made(x, x, x, ~real, mask=Documents(ids), positions=positions)[0]
    given = decoded(
        made,
        x,
        steps,
        key_padding_mask=lambda _, stop: ~real[:, :stop],
        mask=always(Documents(ids)),
        positions=lambda start, stop: positions[:, start:stop],
    )
    assert close(given, whole)
    again = decoded(
        made,
        x,
        steps,
        mask=always(Documents(ids) & Padding(real)),
        positions=lambda start, stop: positions[:, start:stop],
    )
    assert close(again, whole)


def test_masks_of_torch_cover_all_keys_so_far() -> None:
    made, x = module(), tokens()
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    whole = made(x, x, x, attn_mask=hidden)[0]
    for need_weights, hint in ((True, False), (False, False), (True, True), (False, True)):
        given = decoded(
            made,
            x,
            [4, 5],
            attn_mask=lambda start, stop: hidden[start:stop, :stop],
            need_weights=always(need_weights),
            is_causal=always(hint),
        )
        assert close(given, whole)
    windowed = module(mask=Causal() & Window(3))
    hidden = (torch.rand(T, T) > 0.5) & ~torch.eye(T, dtype=torch.bool)
    both = decoded(windowed, x, [4, 2, 3], attn_mask=lambda start, end: hidden[start:end, :end])
    whole = windowed(x, x, x, attn_mask=hidden)[0]
    assert close(both, whole)
    assert not torch.allclose(whole, windowed(x, x, x)[0])


def test_extra_keys_are_not_cached() -> None:
    made, x = module(add_bias_kv=True, add_zero_attn=True, mask=Causal()), tokens()
    assert close(decoded(made, x, [2, 1, 6]), made(x, x, x)[0])


def test_without_a_batch_and_tokens_first() -> None:
    made, x = module(positions=Rotary(), mask=Causal()), tokens()
    cache = made.new_cache()
    steps = [made(x[0, i : i + 1], x[0, i : i + 1], x[0, i : i + 1], cache=cache) for i in range(T)]
    assert close(torch.cat([s[0] for s in steps]), made(x, x, x)[0][0])
    assert steps[-1][1].shape == (1, T)


def test_a_window_bounds_what_is_kept() -> None:
    made, x = module(mask=Causal() & Window(3)), tokens()
    cache = made.new_cache()
    for i in range(T):
        made(x[:, i : i + 1], x[:, i : i + 1], x[:, i : i + 1], cache=cache)
        assert cache.kept == min(i + 1, 3)
        keys, values = cache.keys, cache.values
        assert keys is not None
        assert values is not None
        assert keys.shape == values.shape == (B, 2, cache.kept, E // H)
        assert keys.untyped_storage().nbytes() <= 4 * B * 2 * (E // H) * 8
    assert repr(cache) == "KeyValueCache(window=3, length=9, kept=3)"


@pytest.mark.parametrize(("mask", "shown"), [(None, "all"), (Causal(), "all"), (Window(9), "9")])
def test_a_cache_that_forgets_too_early_is_refused(*, mask: Mask | None, shown: str) -> None:
    made, x = module(mask=mask), tokens()
    with pytest.raises(InputError, match=f"a cache of 3 tokens, where the mask shows {shown}"):
        made(x, x, x, cache=KeyValueCache(window=3))


def test_a_cache_of_another_batch_is_refused() -> None:
    made, x = module(mask=Causal()), tokens()
    cache = made.new_cache()
    made(x, x, x, cache=cache)
    with pytest.raises(InputError, match=r"keys \(1, 2, 9, 4\) after keys \(2, 2, 9, 4\)"):
        made(x[:1], x[:1], x[:1], cache=cache)
    assert cache.length == T
    cache.reset()
    made(x[:1], x[:1], x[:1], cache=cache)
    assert cache.length == T


def test_samples_are_reordered() -> None:
    made, x = module(positions=Rotary(), mask=Causal()), tokens()
    cache = made.new_cache()
    start = x[:, :5]
    positions = torch.stack([torch.arange(5), torch.arange(5) + 2])
    made(start, start, start, cache=cache, positions=positions)
    order = torch.tensor([1, 1])
    cache.reorder(order)
    end = x[:, 5:]
    later = torch.arange(5, 9) + 2
    given = made(end, end, end, cache=cache, positions=later.expand(2, -1))[0]
    whole = torch.cat([x[order, :5], end], 1)
    wanted = made(whole, whole, whole, positions=torch.arange(9).add(2).expand(2, -1))[0]
    assert close(given, wanted[:, 5:])


def test_positions_of_samples_follow_those_of_all() -> None:
    made, x = module(positions=ALiBi(), mask=Causal()), tokens()
    cache = made.new_cache()
    for start, stop, positions in ((0, 4, None), (4, 9, torch.arange(4, 9).expand(B, -1))):
        new = x[:, start:stop]
        output = made(new, new, new, cache=cache, positions=positions)[0]
    assert close(output, made(x, x, x)[0][:, 4:])


@pytest.mark.parametrize("length", [4, 9, -1, 2.5, "2", True])
def test_a_cache_does_not_go_back_to_what_it_never_was(length: Any) -> None:
    cache, k = KeyValueCache(), torch.randn(B, 2, 3, 4)
    cache.extend(k, k, torch.arange(3))
    with pytest.raises(InputError, match="give a whole number from 0 to 3"):
        cache.before(length)


def test_a_cache_with_a_window_goes_back_as_far_as_it_remembers() -> None:
    cache, k = KeyValueCache(window=3), torch.randn(B, 2, 9, 4)
    for start, stop in ((0, 5), (5, 7), (7, 9)):
        cache.extend(k[:, :, start:stop], k[:, :, start:stop], torch.arange(start, stop))
    earlier = cache.before(7)
    assert earlier.keys is not None
    assert torch.equal(earlier.keys, k[:, :, 4:7])
    with pytest.raises(InputError, match="give a whole number from 7 to 9"):
        cache.before(6)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_copies_of_a_cache_that_has_gradients_go_on_by_themselves(
    twin: Callable[[Any], Any],
) -> None:
    made, x = module(positions=Rotary(), mask=Causal()), tokens()
    cache = made.new_cache()
    made(x[:, :4], x[:, :4], x[:, :4], cache=cache)
    assert cache.keys is not None
    assert cache.keys.requires_grad
    other = twin(cache)
    copied = copy.deepcopy(made)
    for model, own in ((copied, other), (made, cache)):
        output = model(x[:, 4:], x[:, 4:], x[:, 4:], cache=own)[0]
        assert close(output, made(x, x, x)[0][:, 4:])
        assert own.length == T


@pytest.mark.parametrize("samples", [[0], torch.tensor([True, False]), torch.tensor(0), None])
def test_samples_are_whole_numbers(samples: Any) -> None:
    with pytest.raises(InputError, match="the samples to take"):
        KeyValueCache().reorder(samples)
