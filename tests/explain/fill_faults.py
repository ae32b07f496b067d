"""What a port puts at hidden keys, and in rows that see nothing."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from tests.explain.faults import Pair, causal_padded, fault, faults_in, lengths
from tests.explain.scenes import Sizes, Steps, causal, padding, steps


@fault("mask-as-bias", "1 at visible keys", readable=False)
def ones_added(s: Sizes) -> Pair:
    right = causal_padded(s)
    assert right.seen is not None
    seen = right.seen
    return right, replace(right, score=lambda own, raw: raw * own.scale + seen.double())


@fault("mask-as-bias", "-1 at hidden keys")
def padding_added(s: Sizes) -> Pair:
    right = causal_padded(s)
    drop = -(~padding(lengths(s), s.keys)).double()
    return right, replace(right, seen=causal(s.queries, s.keys), bias=drop)


@fault("mask-as-bias", "1 at hidden keys")
def drop_mask_added(s: Sizes) -> Pair:
    right = steps(s, seen=padding(lengths(s), s.keys))
    drop = (~padding(lengths(s), s.keys)).double()
    return right, replace(right, seen=None, bias=drop)


def _filled(s: Sizes, fill: float, loud: float = 1.0) -> Pair:
    right = causal_padded(s, scale=loud * s.head_dim**-0.5)
    return right, replace(right, score=lambda own, raw: own.hide(raw * own.scale, fill))


@fault("mask-fill", "-10", readable=False)
def fill_of_minus_ten(s: Sizes) -> Pair:
    return _filled(s, -10.0)


@fault("mask-fill", "-10000", readable=False)
def fill_in_large_scores(s: Sizes) -> Pair:
    return _filled(s, -1e4, loud=1e5)


@fault("mask-fill", "1e-09", readable=False)
def fill_of_a_small_number(s: Sizes) -> Pair:
    return _filled(s, 1e-9)


@fault("mask-fill", "wrong sign", readable=False)
def fill_of_the_wrong_sign(s: Sizes) -> Pair:
    return _filled(s, 1e9)


@fault("mask-fill", "multiplied by a mask", readable=False)
def scores_times_mask(s: Sizes) -> Pair:
    right = causal_padded(s)
    assert right.seen is not None
    seen = right.seen
    return right, replace(right, score=lambda own, raw: raw * own.scale * seen)


@fault("mask-fill", "-3.3", readable=False)
def fill_of_any_number(s: Sizes) -> Pair:
    return _filled(s, -3.3)


@fault("mask-fill", "-5 added", readable=False)
def fill_added(s: Sizes) -> Pair:
    right = steps(s, seen=padding(lengths(s), s.keys))
    drop = -5.0 * (~padding(lengths(s), s.keys)).double()
    return right, replace(right, seen=None, bias=drop)


def _empty(s: Sizes) -> Steps:
    left = padding(lengths(s), s.keys).flip(-1)
    return steps(s, seen=causal(s.queries, s.keys) & left, empty_row="zero")


@fault("empty-rows", "NaN", "of 0")
def empty_rows_of_nan(s: Sizes) -> Pair:
    right = _empty(s)
    return right, replace(right, empty_row="nan")


@fault("empty-rows", "equal weights", "of 0", readable=False)
def empty_rows_uniform(s: Sizes) -> Pair:
    right = _empty(s)

    def weigh(_: Steps, scores: Tensor) -> Tensor:
        return scores.masked_fill(scores.isneginf(), -1e300).softmax(-1)

    return right, replace(right, weigh=weigh)


def _filled_otherwise(right: Steps, seen: Tensor, fill: float, *, adds: bool) -> Pair:
    """Hide other keys, with a finite fill that leaves rows in which all are filled."""

    def score(own: Steps, raw: Tensor) -> Tensor:
        scores = raw * own.scale
        filled: Tensor = (
            scores + fill * (~seen).double() if adds else scores.masked_fill(~seen, fill)
        )
        return filled

    return right, replace(right, score=score)


@fault("mask-inverted", "equal weights", readable=False)
def inverted_and_filled(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return _filled_otherwise(right, ~causal(s.queries, s.keys), -1e9, adds=False)


@fault("mask-shifted", "diagonal=-1", "open", readable=False)
def shifted_and_added(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return _filled_otherwise(right, causal(s.queries, s.keys, -1), -1e6, adds=True)


@fault("mask-axis", "queries", "equal weights", readable=False)
def queries_filled(s: Sizes) -> Pair:
    keep = padding(lengths(s), s.keys)
    return _filled_otherwise(steps(s, seen=keep), keep.mT, -1e9, adds=False)


@fault("mask-fill", "-4.2 added", readable=False)
def logarithm_of_a_soft_mask(s: Sizes) -> Pair:
    keep = padding(lengths(s), s.keys)
    right = steps(s, seen=keep)
    soft = 0.3 * keep.double() - 3.9 * ~keep
    return right, replace(right, seen=None, score=lambda own, raw: raw * own.scale + soft)


@fault("mask-after-softmax", "no longer sum to one", modes=("opaque", "output"))
def masked_after_softmax(s: Sizes) -> Pair:
    right = causal_padded(s)
    assert right.seen is not None
    seen = right.seen
    return right, replace(right, seen=None, finish=lambda weights: weights * seen)


@fault("mask-after-softmax", "padding mask", modes=("opaque", "output"))
def padding_after_softmax(s: Sizes) -> Pair:
    right = causal_padded(s)
    keep = padding(lengths(s), s.keys)
    seen = causal(s.queries, s.keys)
    return right, replace(right, seen=seen, finish=lambda weights: weights * keep)


FAULTS = faults_in(globals())
