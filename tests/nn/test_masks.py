"""Masks are those of the reference, combine as sets do, and speak of places in the sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnscope import reference
from attnscope.errors import InputError
from attnscope.nn import Causal, Documents, Mask, MultiheadAttention, Padding, Prefix, Window

REAL = torch.tensor([[True, True, True, False, False], [False, True, True, True, True]])
IDS = torch.tensor([[0, 0, 1, 1, 1], [7, 7, 7, 7, 3]])


def seen(mask: Mask, queries: int, keys: int, start: int = 0) -> np.ndarray:
    visible = mask.visible(torch.arange(start, start + queries), torch.arange(keys))
    assert visible.dtype == torch.bool
    assert visible.dim() == 4
    return visible.expand(-1, -1, queries, keys).numpy()


SAME: dict[str, tuple[Mask, np.ndarray]] = {
    "causal": (Causal(), reference.causal(4, 5, "top-left")),
    "bottom right": (Causal("bottom-right"), reference.causal(4, 5, "bottom-right")),
    "window": (Window(2), reference.window(2, 4, 5, sides="both", alignment="top-left")),
    "past": (Causal() & Window(2), reference.window(2, 4, 5, sides="past", alignment="top-left")),
    "prefix": (Causal() | Prefix(2), reference.prefix(2, 4, 5, "top-left")),
    "prefixes": (
        Causal() | Prefix(torch.tensor([1, 3])),
        reference.prefix(np.array([1, 3]), 4, 5, "top-left"),
    ),
    "lengths": (Padding(torch.tensor([3, 5])), reference.padding([3, 5], 5)),
    "tokens": (Padding(REAL), REAL.numpy()[:, None, None]),
    "documents": (
        Documents(IDS[:, :4], IDS),
        reference.documents(IDS[:, :4].numpy(), IDS.numpy()),
    ),
}


@pytest.mark.parametrize(("mask", "visible"), SAME.values(), ids=SAME)
def test_masks_of_the_reference(mask: Mask, visible: np.ndarray) -> None:
    given = seen(mask, 4, 5)
    wanted = np.broadcast_to(visible, given.shape)
    np.testing.assert_array_equal(given, wanted)
    assert given.any()
    assert not given.all()


@pytest.mark.parametrize("mask", [mask for mask, _ in SAME.values()], ids=list(SAME))
def test_later_queries_see_what_they_see_in_the_full_pass(mask: Mask) -> None:
    if isinstance(mask, Documents):
        mask = Documents(IDS)
    places = torch.arange(5)
    whole = mask.visible(places, places)
    step = mask.visible(places[3:], places)
    assert torch.equal(step, whole[..., 3:, :].expand_as(step))


def test_and_or() -> None:
    place = torch.arange(5)
    left, right = Causal(), Window(2)
    a, b = left.visible(place, place), right.visible(place, place)
    assert torch.equal((left & right).visible(place, place), a & b)
    assert torch.equal((left | right).visible(place, place), a | b)
    assert not torch.equal(a & b, a | b)


@pytest.mark.parametrize(
    ("mask", "reach"),
    [
        (Causal(), None),
        (Window(3), 3),
        (Causal() & Window(3), 3),
        (Window(5) & Window(3), 3),
        (Window(5) | Window(3), 5),
        (Window(3) | Prefix(1), None),
        (Window(3) & Documents(IDS), 3),
    ],
)
def test_reach(mask: Mask, reach: int | None) -> None:
    assert mask.reach == reach


def test_masks_of_the_module_and_of_a_forward_both_hide() -> None:
    module = MultiheadAttention(8, 2, batch_first=True, mask=Causal())
    x = torch.randn(2, 5, 8)
    _, weights = module(x, x, x, mask=Padding(REAL) & Documents(IDS), average_attn_weights=False)
    wanted = Causal() & Padding(REAL) & Documents(IDS)
    visible = wanted.visible(torch.arange(5), torch.arange(5)).expand_as(weights)
    rows = visible.any(-1)
    assert torch.equal((weights > 0)[rows], visible[rows])
    assert bool(weights[~rows].isnan().all())
    assert not bool(rows.all())


BAD: dict[str, Any] = {
    "float padding": lambda: Padding(torch.ones(2, 5)),
    "padding of no axis": lambda: Padding(torch.tensor(3)),
    "lengths as floats": lambda: Padding(torch.tensor([1.0, 2.0])),
    "flat ids": lambda: Documents(torch.tensor([0, 0, 1])),
    "float ids": lambda: Documents(torch.zeros(1, 3)),
    "float ids of keys": lambda: Documents(IDS, torch.zeros(2, 5)),
}


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_what_is_no_mask_is_refused(make: Any) -> None:
    with pytest.raises(InputError, match="give"):
        make()


def short(kind: type[Mask]) -> Mask:
    return kind(REAL[:, :3]) if kind is Padding else kind(IDS[:, :3])  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [Padding, Documents])
def test_masks_that_end_too_early_are_refused(kind: type[Mask]) -> None:
    places: Tensor = torch.arange(5)
    with pytest.raises(InputError, match="3 tokens, and place 4"):
        short(kind).visible(places, places)
