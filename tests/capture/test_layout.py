"""What layouts say of the steps that model code takes."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import torch

from attnscope.capture.layout import (
    Atom,
    Axis,
    Layout,
    Unknown,
    follow,
    fresh,
    merge,
    same,
    split_common,
)
from tests.capture.layout_follower import Follower, check


@pytest.fixture
def follower() -> Follower:
    return Follower()


def head(size: int, stride: int, offset: int = 0, *, origin: int = 0, axis: int = 2) -> Atom:
    return Atom(origin, axis, stride, size, offset)


def copies(size: int) -> Atom:
    return Atom(-1, -1, 0, size, repeated=True)


def test_heads_are_split_off_the_features(follower: Follower) -> None:
    x = follower.origin(2, 5, 12)
    q = follower.call("transpose", follower.call("view", x, 2, 5, 3, 4), 1, 2)
    assert follower.of(q).axes == (
        (Atom(0, 0, 1, 2),),
        (head(3, 4),),
        (Atom(0, 1, 1, 5),),
        (head(4, 1),),
    )
    back = follower.call("reshape", follower.call("transpose", q, 1, 2), 2, 5, 12)
    assert follower.of(back) == fresh((2, 5, 12), 0)


def test_a_view_without_transpose_takes_heads_from_tokens(follower: Follower) -> None:
    x = follower.origin(2, 6, 12)
    wrong = follower.call("view", x, 2, 3, 6, 4)
    assert follower.of(wrong).axes[1] == (Atom(0, 1, 2, 3),)
    assert follower.of(wrong).axes[2] == (Atom(0, 1, 1, 2), head(3, 4))


def test_a_view_across_the_grain_is_opaque_and_the_rest_known(follower: Follower) -> None:
    x = follower.origin(2, 5, 12)
    wrong = follower.call("view", x, 2, 3, 5, 4)
    assert follower.of(wrong).axes[0] == (Atom(0, 0, 1, 2),)
    assert [axis[0].opaque for axis in follower.of(wrong).axes[1:]] == [True, True, True]
    again = follower.call("view", wrong, 2, 60)
    assert follower.of(again).axes[1] == (Atom(1, 0, 1, 60, opaque=True),)


def test_batch_and_heads_folded_into_one_axis(follower: Follower) -> None:
    x = follower.origin(2, 5, 12)
    q = follower.call("permute", follower.call("view", x, 2, 5, 3, 4), 0, 2, 1, 3)
    folded = follower.call("reshape", q, 6, 5, 4)
    assert follower.of(folded).axes[0] == (Atom(0, 0, 1, 2), head(3, 4))


def test_grouped_heads_are_told_from_their_order(follower: Follower) -> None:
    k = follower.origin(2, 3, 5, 4)
    kv = Atom(0, 1, 1, 3)
    wide = follower.call(
        "expand", follower.call("getitem", k, (slice(None), slice(None), None)), 2, 3, 2, 5, 4
    )
    expanded = follower.call("reshape", wide, 2, 6, 5, 4)
    interleaved = follower.call("repeat_interleave", k, 2, dim=1)
    assert follower.of(expanded).axes[1] == follower.of(interleaved).axes[1] == (kv, copies(2))
    for tiled in (follower.call("repeat", k, 1, 2, 1, 1), follower.call("tile", k, (2, 1, 1))):
        assert follower.of(tiled).axes[1] == (copies(2), kv)


def test_packed_projections_differ_in_offset_alone(follower: Follower) -> None:
    x = follower.origin(2, 5, 36)
    packed = follower.call("permute", follower.call("view", x, 2, 5, 3, 3, 4), 2, 0, 3, 1, 4)
    for i in range(3):
        unbound = follower.call("unbind", packed, 0, pick=i)
        indexed = follower.call("getitem", packed, i)
        chunk = follower.call("chunk", x, 3, dim=-1, pick=i)
        split = follower.call("transpose", follower.call("view", chunk, 2, 5, 3, 4), 1, 2)
        assert follower.of(unbound) == follower.of(indexed) == follower.of(split)
        assert follower.of(unbound).axes[1] == (head(3, 4, 12 * i),)


def test_projections_packed_inside_each_head(follower: Follower) -> None:
    x = follower.origin(2, 5, 36)
    by_head = follower.call("view", x, 2, 5, 3, 12)
    k = follower.call("split", by_head, 4, dim=-1, pick=1)
    other = follower.call("select", follower.call("view", x, 2, 5, 3, 3, 4), 3, 1)
    assert follower.of(k) == follower.of(other)
    assert follower.of(k).axes[2:] == ((head(3, 12),), (head(4, 1, 4),))


def test_windows_of_an_image(follower: Follower) -> None:
    x = follower.origin(2, 4, 6, 8)
    cut = follower.call("view", x, 2, 2, 2, 3, 2, 8)
    windows = follower.call("reshape", follower.call("permute", cut, 0, 1, 3, 2, 4, 5), -1, 4, 8)
    assert follower.of(windows).axes == (
        (Atom(0, 0, 1, 2), Atom(0, 1, 2, 2), Atom(0, 2, 2, 3)),
        (Atom(0, 1, 1, 2), Atom(0, 2, 1, 2)),
        (Atom(0, 3, 1, 8),),
    )


def test_a_sink_column_comes_and_goes(follower: Follower) -> None:
    scores = follower.origin(2, 3, 5, 7)
    sinks = torch.zeros(2, 3, 5, 1, dtype=torch.long)
    for parts, before, after in (([scores, sinks], 0, 1), ([sinks, scores], 1, 0)):
        wide = follower.call("cat", parts, dim=-1)
        assert follower.of(wide).axes[3] == (Atom(0, 3, 1, 8, before=before, after=after),)
        kept = follower.call("getitem", wide, (..., slice(before, 8 - after)))
        assert follower.of(kept) == follower.of(scores)


def test_halves_put_together_again_are_whole(follower: Follower) -> None:
    x = follower.origin(2, 8)
    halves = [follower.call("chunk", x, 2, -1, pick=i) for i in range(2)]
    assert follower.of(follower.call("cat", halves, -1)) == follower.of(x)
    turned = follower.of(follower.call("cat", halves[::-1], -1)).axes[1]
    assert turned == (Atom(0, 1, -4, 2), Atom(0, 1, 1, 4, offset=4))


def test_even_and_odd_features_interleaved_again(follower: Follower) -> None:
    x = follower.origin(2, 8)
    parts = [follower.call("getitem", x, (..., slice(i, None, 2))) for i in range(2)]
    assert follower.of(parts[1]).axes[1] == (Atom(0, 1, 2, 4, offset=1),)
    pairs = follower.call("stack", parts, -1)
    assert follower.of(follower.call("flatten", pairs, -2)) == follower.of(x)


def test_overlapping_windows_add_up(follower: Follower) -> None:
    x = follower.origin(2, 9)
    windows = follower.call("unfold", x, 1, 5, 2)
    assert follower.of(windows).axes[1:] == ((Atom(0, 1, 2, 3),), (Atom(0, 1, 1, 5),))


def test_a_projection_keeps_the_tokens_and_begins_the_features(follower: Follower) -> None:
    x = follower.origin(2, 5, 12)
    y = follower.call("linear", x, torch.zeros(8, 12, dtype=torch.long))
    assert follower.of(y).axes == (*follower.of(x).axes[:2], (Atom(1, 2, 1, 8),))
    flat = follower.call("view", x, 10, 12)
    z = follower.call(
        "addmm", torch.zeros(8, dtype=torch.long), flat, torch.zeros(12, 8, dtype=torch.long)
    )
    z = follower.call("view", z, 2, 5, 8)
    assert follower.of(z).axes[:2] == follower.of(x).axes[:2]


def test_scores_name_their_queries_and_keys(follower: Follower) -> None:
    q, k = follower.origin(2, 3, 5, 4), follower.origin(2, 3, 7, 4)
    scores = follower.call("matmul", q, follower.call("transpose", k, -1, -2))
    queries, keys = (Atom(0, 2, 1, 5),), (Atom(1, 2, 1, 7),)
    assert follower.of(scores).axes == (*follower.of(q).axes[:2], queries, keys)
    mask = torch.ones(5, 7, dtype=torch.bool)
    steps: list[tuple[str, tuple[Any, ...]]] = [
        ("div", (2,)),
        ("masked_fill_", (mask, 0)),
        ("radd", (torch.zeros(2, 1, 5, 7),)),
        ("softmax", (-1,)),
    ]
    layout: Layout | None = follower.of(scores)
    for name, rest in steps:
        layout = follow(
            name,
            (layout, *follower.seen(rest)),
            {},
            (2, 3, 5, 7),
            new_origin=follower.next_origin,
        )
    assert layout == follower.of(scores)
    named = follower.call("einsum", "bhqd, bhkd -> bhqk", q, k)
    assert follower.of(named) == follower.of(scores)


def test_copies_meet_the_tensor_that_has_the_axis(follower: Follower) -> None:
    x = follower.origin(2, 3, 4)
    row = follower.origin(4)
    wide = follower.call("expand", row, 2, 3, 4)
    for args in ((x, wide), (wide, x)):
        assert follower.of(follower.call("add", *args)).axes[:2] == follower.of(x).axes[:2]
    met = follower.call("add", wide, torch.zeros(3, 1, dtype=torch.long))
    assert follower.of(met).axes[0] == (copies(2),)
    assert not follower.of(met).axes[1][0].repeated
    assert follower.of(met).axes[2] == follower.of(row).axes[0]


def test_reductions(follower: Follower) -> None:
    x = follower.origin(2, 3, 4)
    axes = follower.of(x).axes
    assert follower.of(follower.call("sum", x, -1)).axes == axes[:2]
    assert follower.of(follower.call("amax", x, (0, 2), keepdim=True)).axes == ((), axes[1], ())
    assert follower.of(follower.call("max", x, dim=1, pick=0)).axes == (axes[0], axes[2])
    assert follower.of(follower.call("sum", x)).axes == ()
    assert follower.of(follower.call("cumsum", x, 1)).axes == axes
    assert follower.of(follower.call("max", x, torch.zeros_like(x))).axes == axes


def test_ids_hand_their_axes_on(follower: Follower) -> None:
    ids = follower.origin(2, 5)
    table = torch.zeros(10, 4)
    out = follower.call("embedding", ids, table)
    assert follower.of(out).axes == (*follower.of(ids).axes, (Atom(1, 2, 1, 4),))


def test_gather_has_the_axis_of_its_index(follower: Follower) -> None:
    scores, index = follower.origin(2, 3, 8), follower.origin(3, 3)
    follower.know(index := index % 8, fresh((3, 3), 1))
    wide = follower.call("expand", index, 2, 3, 3)
    out = follower.call("gather", scores, -1, wide)
    assert follower.of(out).axes == (*follower.of(scores).axes[:2], (Atom(1, 1, 1, 3),))


@pytest.mark.parametrize(
    "index",
    [
        (0, slice(None), [1, 0]),
        ([0, 1], slice(None), [1, 0]),
        (slice(None), [0, 1], [1, 0]),
        (slice(None), torch.tensor([[True, False, True, True]] * 3)),
        (slice(None), 1, torch.tensor(2)),
        (..., None, [2]),
        [1, 0],
    ],
)
def test_indices_have_the_shapes_that_torch_gives(follower: Follower, index: Any) -> None:
    x = follower.origin(2, 3, 4)
    out = follower.call("getitem", x, index)
    check(follower.of(out), out, (2, 3, 4), exact=False)


@pytest.mark.parametrize("name", ["as_strided", "conv2d", "nonzero", "tensor", "fft"])
def test_what_is_not_understood_is_none(name: str) -> None:
    assert follow(name, (fresh((2, 3), 0), 2), {}, (2, 3), new_origin=count(1).__next__) is None


def test_what_does_not_fit_the_output_is_none() -> None:
    x = fresh((2, 3), 0)
    for name, args in (
        ("view", (x, 4)),
        ("transpose", (x, 0, 1)),
        ("select", (x, 5, 0)),
        ("add", (x, Unknown((4,)))),
        ("add", (Unknown((2, 3)), 1)),
    ):
        assert follow(name, args, {}, (2, 4), new_origin=count(1).__next__) is None


def test_two_axes_refined_alike() -> None:
    whole: Axis = (head(24, 1),)
    parts: Axis = (Atom(1, 0, 1, 4), Atom(1, 1, 1, 6))
    assert split_common(whole, parts) == ((head(4, 6), head(6, 1)), parts)
    assert split_common((head(4, 6), head(6, 1)), (head(6, 4), head(4, 1))) is None
    assert split_common((head(4, 1),), (head(6, 1),)) is None


def test_split_atoms_merge_again() -> None:
    whole = head(24, 1, 3)
    assert merge((head(4, 6, 3), head(2, 3), head(3, 1))) == (whole,)
    assert merge((copies(2), copies(3), whole)) == (copies(6), whole)
    assert merge((head(3, 1), head(4, 6))) == (head(3, 1), head(4, 6))


def test_same_atoms() -> None:
    assert same(head(3, 4), head(3, 4))
    assert not same(head(3, 4), head(3, 4, 12))
    assert same(copies(2), copies(2))
