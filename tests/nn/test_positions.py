"""Positions are those of the reference, for any positions, and know their distance alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attnscope import reference
from attnscope.nn import ALiBi, MultiheadAttention, Positions, Rotary, ShawKeys, T5Bias
from attnscope.nn.positions import alibi_slopes, t5_buckets

B, T, S, H, D = 2, 5, 7, 6, 12
close = partial(torch.allclose, rtol=1e-12, atol=1e-13)
agrees = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-13)

KINDS: dict[str, Positions] = {
    "none": Positions(),
    "rotary": Rotary(),
    "rotary interleaved": Rotary(base=100.0, pairing="interleaved", share=0.5),
    "alibi": ALiBi(),
    "t5": T5Bias(H).double(),
    "shaw": ShawKeys(D, 3).double(),
}


def scores(kind: Positions, q: Tensor, k: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    q, k = kind.turn(q, k, queries, keys)
    bias = kind.bias(q, queries, keys)
    product = q @ k.mT
    return product if bias is None else product + bias


def sides() -> tuple[Tensor, Tensor]:
    return torch.randn(B, H, T, D).double(), torch.randn(B, H, S, D).double()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_distance_alone_counts(kind: Positions) -> None:
    q, k = sides()
    queries, keys = torch.arange(T), torch.arange(S)
    here = scores(kind, q, k, queries, keys)
    there = scores(kind, q, k, queries + 1000, keys + 1000)
    assert torch.allclose(here, there, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_positions_matter(name: str) -> None:
    q, k = sides()
    queries, keys = torch.arange(T), torch.arange(S)
    plain, moved = q @ k.mT, scores(KINDS[name], q, k, queries + 2, keys)
    assert torch.equal(plain, moved) == (name == "none")
    assert torch.equal(scores(KINDS[name], q, k, queries, keys), moved) == (name == "none")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_sample_may_have_its_own(kind: Positions) -> None:
    q, k = sides()
    queries = torch.stack([torch.arange(T), torch.arange(T) * 2 + 3])
    keys = torch.stack([torch.arange(S), torch.arange(S) * 2])
    together = scores(kind, q, k, queries, keys)
    for i in range(B):
        alone = scores(kind, q[i : i + 1], k[i : i + 1], queries[i], keys[i])
        assert close(together[i], alone[0])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.4])
@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_rotary_is_the_reference(*, pairing: Any, share: float, base: float) -> None:
    q, k = sides()
    part = Rotary(base, pairing, share)
    queries, keys = torch.arange(T) + 40, torch.arange(S)
    turned = part.turn(q, k, queries, keys)
    for x, given, places in zip(turned, (q, k), (queries, keys), strict=True):
        wanted = reference.rotary(
            given.numpy(), places.numpy(), base=base, pairing=pairing, share=share
        )
        agrees(x.numpy(), wanted)
        assert not torch.equal(x, given)


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 20])
def test_alibi_is_the_reference(heads: int) -> None:
    slopes = reference.alibi_slopes(heads)
    np.testing.assert_allclose(alibi_slopes(heads).numpy(), slopes, rtol=1e-15)
    queries, keys = torch.arange(T), torch.arange(S)
    bias = ALiBi().bias(torch.zeros(1, heads, T, D).double(), queries, keys)
    wanted = reference.alibi_bias(slopes, queries.numpy(), keys.numpy(), form="symmetric")
    np.testing.assert_allclose(bias[0].numpy(), wanted, rtol=1e-15)


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (8, 20), (4, 3)])
def test_t5_is_the_reference(*, both_ways: bool, buckets: int, reach: int) -> None:
    distance = torch.arange(-300, 300)
    given = t5_buckets(distance, buckets, reach, both_ways=both_ways)
    wanted = reference.t5_buckets(
        distance.numpy(), bidirectional=both_ways, buckets=buckets, max_distance=reach
    )
    np.testing.assert_array_equal(given.numpy(), wanted)
    assert len(given.unique()) == buckets - (both_ways and buckets // 2 > 0) * 1


def test_shaw_is_the_reference() -> None:
    q, _ = sides()
    part = ShawKeys(D, 2).double()
    queries, keys = torch.arange(T), torch.arange(S)
    bias = part.bias(q, queries, keys)
    distance = np.clip(np.arange(S) - np.arange(T)[:, None], -2, 2) + 2
    wanted = np.einsum("bhqd,qkd->bhqk", q.numpy(), part.vectors.detach().numpy()[distance])
    agrees(bias.detach().numpy(), wanted)


def test_one_t5_table_may_serve_all_layers() -> None:
    table = T5Bias(2)
    layers = nn.ModuleList(MultiheadAttention(8, 2, positions=table) for _ in range(3))
    assert sum(p is table.table.weight for layer in layers for p in layer.parameters()) == 3
    assert len(list(layers.parameters())) == 3 * 4 + 1


def test_left_padding_with_positions_of_its_own() -> None:
    """A sample that is padded on the left gives what it gives alone."""
    module = MultiheadAttention(8, 2, batch_first=True, positions=Rotary()).double()
    x = torch.randn(1, 4, 8).double()
    alone = module(x, x, x)[0]
    padded = torch.cat([torch.randn(1, 2, 8).double(), x], 1)
    hidden = torch.tensor([[True, True, False, False, False, False]])
    positions = torch.tensor([[0, 0, 0, 1, 2, 3]])
    found = module(padded, padded, padded, hidden, positions=positions)[0]
    assert close(found[:, 2:], alone)
    two = module(padded, padded, padded, hidden, positions=(positions, positions))[0]
    assert torch.equal(two, found)


@pytest.mark.parametrize("positions", [torch.arange(3), (torch.arange(4), torch.arange(5))])
def test_positions_of_another_number_are_refused(positions: Any) -> None:
    x = torch.randn(4, 1, 8)
    with pytest.raises(ValueError, match="placing tokens: positions"):
        MultiheadAttention(8, 2, positions=Rotary())(x, x, x, positions=positions)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", KINDS)
def test_types_are_kept_and_angles_are_not_rounded(*, name: str, dtype: torch.dtype) -> None:
    q, k = (x.to(dtype) for x in sides())
    queries, keys = torch.arange(T) + 1001, torch.arange(S) + 1001
    turned = KINDS[name].turn(q, k, queries, keys)
    assert {x.dtype for x in turned} == {dtype}
    bias = KINDS[name].bias(q, queries, keys)
    assert bias is None or bias.dtype == dtype
    exact = KINDS[name].turn(q.double(), k.double(), queries, keys)
    for given, wanted in zip(turned, exact, strict=True):
        assert torch.allclose(given.double(), wanted, atol=16 * torch.finfo(dtype).eps + 1e-3)
