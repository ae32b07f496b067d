"""What a port gets wrong in the mask and its windows."""

from __future__ import annotations

from dataclasses import replace

import torch

from tests.explain.faults import Pair, causal_padded, fault, faults_in, lengths
from tests.explain.scenes import Sizes, causal, padding, steps


@fault("mask-missing", "causal mask", "missing")
def causal_missing(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return right, replace(right, seen=None)


@fault("mask-missing", "causal mask", "padding mask is there")
def causal_missing_beside_padding(s: Sizes) -> Pair:
    return causal_padded(s), steps(s, seen=padding(lengths(s), s.keys))


@fault("mask-missing", "padding mask", "causal mask is there")
def padding_missing(s: Sizes) -> Pair:
    return causal_padded(s), steps(s, seen=causal(s.queries, s.keys))


@fault("mask-missing", "window", "causal mask is there", also=("window",))
def window_missing(s: Sizes) -> Pair:
    seen = causal(s.queries, s.keys)
    right = steps(s, seen=seen & ~causal(s.queries, s.keys, -3))
    return right, replace(right, seen=seen)


@fault("mask-missing", "document mask", "causal mask is there")
def documents_missing(s: Sizes) -> Pair:
    number = torch.tensor([0] * 2 + [1] * 3 + [2] * (s.keys - 5))
    seen = causal(s.queries, s.keys)
    right = steps(s, seen=seen & (number == number[:, None]))
    return right, replace(right, seen=seen)


@fault("mask-inverted", "mask is inverted")
def padding_inverted(s: Sizes) -> Pair:
    right = steps(s, seen=padding(lengths(s), s.keys))
    return right, replace(right, seen=~padding(lengths(s), s.keys))


@fault("mask-inverted", "mask is inverted")
def causal_inverted(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return right, replace(right, seen=~causal(s.queries, s.keys))


@fault("mask-inverted", "padding mask is inverted")
def one_part_inverted(s: Sizes) -> Pair:
    seen = causal(s.queries, s.keys, s.keys)
    left = padding(lengths(s), s.keys).flip(-1)
    right = steps(s, seen=causal(s.queries, s.keys) & left, empty_row="zero")
    wrong = causal(s.queries, s.keys) & ~left & seen
    return right, replace(right, seen=wrong)


@fault("mask-corner", "top-left", "bottom-right", square=False)
def other_corner(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys, s.keys - s.queries))
    return right, replace(right, seen=causal(s.queries, s.keys))


@fault("mask-corner", "top-left", "bottom-right", square=False)
def other_corner_with_padding(s: Sizes) -> Pair:
    keep = padding(lengths(s), s.keys)
    seen = keep & causal(s.queries, s.keys, s.keys - s.queries)
    right = steps(s, seen=seen, empty_row="zero")
    return right, replace(right, seen=keep & causal(s.queries, s.keys))


@fault("mask-shifted", "sees 1 later")
def sees_the_next(s: Sizes) -> Pair:
    right = causal_padded(s)
    seen = causal(s.queries, s.keys, 1) & padding(lengths(s), s.keys)
    return right, replace(right, seen=seen)


@fault("mask-shifted", "does not see itself")
def sees_not_itself(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return right, replace(right, seen=causal(s.queries, s.keys, -1), empty_row="zero")


@fault("mask-shifted", "off by one")
def length_off_by_one(s: Sizes) -> Pair:
    right = steps(s, seen=padding(lengths(s), s.keys))
    longer = [length + 1 for length in lengths(s)]
    return right, replace(right, seen=padding(longer, s.keys))


@fault("mask-shifted", "other end")
def padding_at_the_other_end(s: Sizes) -> Pair:
    right = steps(s, seen=padding(lengths(s), s.keys))
    return right, replace(right, seen=padding(lengths(s), s.keys).flip(-1))


@fault("mask-extra", "causal mask", "reference has not")
def causal_extra(s: Sizes) -> Pair:
    right = steps(s, seen=padding(lengths(s), s.keys))
    return right, replace(right, seen=padding(lengths(s), s.keys) & causal(s.queries, s.keys))


@fault("mask-extra", "window of 3", "reference has not", also=("window",))
def window_extra(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    window = causal(s.queries, s.keys) & ~causal(s.queries, s.keys, -3)
    return right, replace(right, seen=window)


@fault("mask-axis", "queries", "padded")
def padding_along_queries(s: Sizes) -> Pair:
    keep = padding(lengths(s), s.keys)
    right = steps(s, seen=keep)
    return right, replace(right, seen=keep.mT.expand(-1, -1, -1, s.keys), empty_row="zero")


@fault("mask-axis", "swapped")
def causal_transposed(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return right, replace(right, seen=causal(s.queries, s.keys).mT)


@fault("mask-rows", "sample")
def mask_tiled_over_heads(s: Sizes) -> Pair:
    keep = padding(lengths(s), s.keys)
    flat = keep.repeat(s.heads, 1, 1, 1).view(s.batch, s.heads, 1, s.keys)
    right = steps(s, seen=keep)
    return right, replace(right, seen=flat)


@fault("mask-rows", "sample")
def mask_of_the_next_sample(s: Sizes) -> Pair:
    right = causal_padded(s)
    keep = padding(lengths(s), s.keys).roll(1, 0)
    return right, replace(right, seen=causal(s.queries, s.keys) & keep)


@fault("mask", "another mask", modes=("read",))
def some_other_mask(s: Sizes) -> Pair:
    random = torch.Generator().manual_seed(9)
    seen = torch.rand(1, 1, s.queries, s.keys, generator=random) > 0.5
    seen[..., 0] = True
    right = causal_padded(s)
    return right, replace(right, seen=seen)


@fault("window", "window of 4", "has 3")
def window_one_too_wide(s: Sizes) -> Pair:
    seen = causal(s.queries, s.keys)
    right = steps(s, seen=seen & ~causal(s.queries, s.keys, -3))
    return right, replace(right, seen=seen & ~causal(s.queries, s.keys, -4))


@fault("window", "window of 2", "has 3")
def window_one_too_narrow(s: Sizes) -> Pair:
    keep = padding(lengths(s), s.keys) & causal(s.queries, s.keys)
    right = steps(s, seen=keep & ~causal(s.queries, s.keys, -3), empty_row="zero")
    return right, replace(right, seen=keep & ~causal(s.queries, s.keys, -2))


@fault("window", "both sides")
def window_on_both_sides(s: Sizes) -> Pair:
    place = torch.arange(s.keys) - torch.arange(s.queries)[:, None]
    one = (place <= 0) & (place > -3)
    right = steps(s, seen=one[None, None])
    return right, replace(right, seen=(place.abs() < 3)[None, None])


FAULTS = faults_in(globals())
