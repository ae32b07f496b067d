"""The small encoder-decoder: decoding, padding on both sides, and who sees what."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import attnscope
from attnscope.nn import Design, EncoderDecoder, Sampling, init, next_token_loss
from attnscope.nn.design import PositionsName

VOCABULARY = 30
BASE = Design(vocabulary=VOCABULARY, width=32, heads=4, scheme=init.XavierUniform())
KINDS: dict[str, Design] = {
    **{name: replace(BASE, positions=name) for name in get_args(PositionsName)},
    "paper": replace(BASE, positions="sinusoidal", placement="post"),
    "untied": replace(BASE, tied=False, norm=nn.RMSNorm, bias=False),
}


def ids(length: int, batch: int = 3) -> Tensor:
    return torch.randint(0, VOCABULARY, (batch, length))


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    return EncoderDecoder(KINDS[request.param]).eval()


def test_the_target_is_causal_and_the_source_is_not(model: EncoderDecoder) -> None:
    source, target = ids(7), ids(5)
    before = model(source, target).logits
    later = target.clone()
    later[:, 3:] = (later[:, 3:] + 1) % VOCABULARY
    after = model(source, later).logits
    assert torch.allclose(before[:, :3], after[:, :3], atol=1e-5)
    assert not torch.allclose(before[:, 3:], after[:, 3:], atol=1e-2)

    other = source.clone()
    other[:, -1] = (other[:, -1] + 1) % VOCABULARY
    assert not torch.allclose(model(other, target).logits[:, 0], before[:, 0], atol=1e-3)
    changed = model.encode(other) - model.encode(source)
    assert float(changed[:, 0].detach().abs().max()) > 1e-3  # the encoder looks ahead


def test_decoding_by_steps_is_the_full_pass(model: EncoderDecoder) -> None:
    source, target = ids(7), ids(6)
    memory, cache = model.encode(source), model.new_cache()
    steps = [
        model(source, part, memory=memory, cache=cache).logits
        for part in target.split([3, 1, 1, 1], 1)
    ]
    assert torch.allclose(torch.cat(steps, 1), model(source, target).logits, atol=1e-5)


def test_the_cache_changes_no_token(model: EncoderDecoder) -> None:
    source, target = ids(7), ids(2)
    for seed in (None, 3):
        found = [
            model.generate(source, target, 5, sampling=sampling(seed), cached=cached)
            for cached in (True, False)
        ]
        assert torch.equal(*found)
        assert found[0].shape == (3, 7)


def sampling(seed: int | None) -> Sampling | None:
    if seed is None:
        return None
    return Sampling(1.0, top_k=9, generator=torch.Generator().manual_seed(seed))


def test_padding_changes_no_real_token(model: EncoderDecoder) -> None:
    source, target = ids(7), ids(5)
    expected = model(source, target).logits
    alone = model.generate(source, target, 4)[:, 5:]
    for left, right in ((2, 0), (0, 2), (1, 1)):
        sides = (left, right)
        real = [
            F.pad(torch.ones_like(one, dtype=torch.bool), sides, value=False)
            for one in (source, target)
        ]
        first, second = (F.pad(one, sides, value=1) for one in (source, target))
        logits = model(first, second, source_real=real[0], target_real=real[1]).logits
        assert bool(logits.isfinite().all())
        assert torch.allclose(logits[:, left : left + 5], expected, atol=1e-5)
        found = model.generate(first, second, 4, source_real=real[0], target_real=real[1])
        assert torch.equal(found[:, 7:], alone)


def test_without_the_masks_padding_would_matter() -> None:
    model = EncoderDecoder(BASE).eval()
    source, target = ids(7), ids(5)
    padded = F.pad(source, (0, 2), value=1)
    assert not torch.allclose(model(padded, target).logits, model(source, target).logits, atol=1e-3)


def test_the_loss_is_that_of_the_next_target_token() -> None:
    model = EncoderDecoder(BASE).eval()
    source, target = ids(7), ids(5)
    output = model(source, target, labels=target)
    assert torch.equal(output.loss, next_token_loss(output.logits, target))


def test_it_learns_to_tell_what_it_reads() -> None:
    model = EncoderDecoder(Design(vocabulary=6, width=32))
    source = torch.arange(2, 6)[:, None]
    target = F.pad(source, (1, 0), value=0)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(30):
        loss = model(source, target, labels=target).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert torch.equal(model.eval().generate(source, target[:, :1], 1), target)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_three_attentions_a_layer_are_traced() -> None:
    model = EncoderDecoder(replace(BASE, layers=1)).eval()
    trace = attnscope.trace(model, ids(7), ids(5))
    assert [call.module for call in trace] == [
        "encoder.0.self_attn",
        "decoder.0.self_attn",
        "decoder.0.multihead_attn",
    ]
    assert [call.recipe.mask.kind for call in trace] == ["none", "causal", "none"]
    assert [(call.queries, call.keys) for call in trace] == [(7, 7), (5, 5), (5, 7)]
