"""What a port gets wrong in the scale, the soft cap and the bias."""

from __future__ import annotations

from dataclasses import replace
from math import log

import torch
from torch import Tensor

from tests.explain.faults import Pair, alibi, causal_padded, fault, faults_in, table
from tests.explain.scenes import Sizes, Steps, causal, steps


@fault("scale", "1/√d_model", "1/√head_dim")
def by_width(s: Sizes) -> Pair:
    right = causal_padded(s)
    return right, replace(right, scale=(s.heads * s.head_dim) ** -0.5)


@fault("scale", "not scaled", "1/√head_dim")
def not_scaled(s: Sizes) -> Pair:
    right = steps(s)
    return right, replace(right, scale=1.0)


@fault("scale", "√head_dim", "multiplied instead of divided")
def multiplied(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return right, replace(right, scale=s.head_dim**0.5)


@fault("scale", "1/head_dim", "scaled twice")
def scaled_twice(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys), bias=table(s))
    return right, replace(right, scale=1 / s.head_dim)


@fault("scale", "a ratio of 1.02")
def two_percent_off(s: Sizes) -> Pair:
    right = causal_padded(s)
    return right, replace(right, scale=1.02 * s.head_dim**-0.5)


@fault("scale", "head_dim^-1/4", "applied to one of q and k")
def root_of_the_scale(s: Sizes) -> Pair:
    right = steps(s, cap=4.0)
    return right, replace(right, scale=s.head_dim**-0.25)


@fault("scale", "of its own", modes=("read", "unread", "opaque"))
def scale_per_head(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    each = torch.linspace(0.1, 0.9, s.heads, dtype=torch.float64)[:, None, None]
    return right, replace(right, scale=each[None])


@fault("scale", "powers of 2", also=("normaliser",))
def powers_of_two(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return right, replace(right, weigh=lambda own, scores: own.weights(scores * log(2)))


@fault("scale", "after the softmax", modes=("opaque", "output"))
def scale_after_softmax(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return right, replace(right, scale=1.0, finish=lambda weights: weights * s.head_dim**-0.5)


@fault("softcap", "no soft cap", "5")
def cap_missing(s: Sizes) -> Pair:
    right = causal_padded(s, cap=5.0)
    return right, replace(right, cap=None)


@fault("softcap", "3.7", "5")
def cap_of_another_size(s: Sizes) -> Pair:
    right = causal_padded(s, cap=5.0)
    return right, replace(right, cap=3.7)


@fault("softcap", "cut off", "-0.5 and 0.5", readable=False, modes=("unread",))
def scores_cut_off(s: Sizes) -> Pair:
    right = steps(s)
    return right, replace(right, score=lambda own, raw: (raw * own.scale).clamp(-0.5, 0.5))


@fault("rounding", "the scores are rounded to float16", readable=False, modes=("opaque", "output"))
def scores_in_half_precision(s: Sizes) -> Pair:
    right = causal_padded(s)
    return right, replace(right, score=lambda own, raw: own.scores(raw).half().double())


@fault("rounding", "q and k", "bfloat16", readable=False, modes=("opaque",))
def queries_and_keys_in_half_precision(s: Sizes) -> Pair:
    right = causal_padded(s)

    def score(own: Steps, raw: Tensor) -> Tensor:
        del raw
        q, k = (x.bfloat16().double() for x in (own.q, own.k[:, own.k_met]))
        return own.scores(q @ k.mT)

    return right, replace(right, score=score)


@fault("softcap", "none", "20")
def cap_extra(s: Sizes) -> Pair:
    right = steps(s)
    return right, replace(right, cap=20.0)


@fault("softcap", "after the mask", readable=False)
def cap_after_mask(s: Sizes) -> Pair:
    right = causal_padded(s, cap=5.0)
    return right, replace(
        right, score=lambda own, raw: 5 * torch.tanh(own.hide(raw * own.scale) / 5)
    )


@fault("softcap", "after the bias", readable=False)
def cap_after_bias(s: Sizes) -> Pair:
    right = steps(s, cap=5.0, bias=table(s), seen=causal(s.queries, s.keys))

    def score(own: Steps, raw: Tensor) -> Tensor:
        return own.hide(5 * torch.tanh((raw * own.scale + table(s)) / 5))

    return right, replace(right, score=score)


@fault("bias-missing", "no bias")
def bias_missing(s: Sizes) -> Pair:
    right = causal_padded(s, bias=table(s))
    return right, replace(right, bias=None)


@fault("bias-extra", "the reference adds none", modes=("read",))
def bias_extra(s: Sizes) -> Pair:
    right = causal_padded(s)
    return right, replace(right, bias=table(s))


@fault("bias-sign", "other sign")
def bias_subtracted(s: Sizes) -> Pair:
    right = causal_padded(s, bias=table(s))
    return right, replace(right, bias=-table(s))


@fault("bias-slope", "2 times", also=("bias-scaled",))
def alibi_twice_as_steep(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys), bias=alibi(s))
    return right, replace(right, bias=2 * alibi(s))


@fault("bias-slope", "0.7 times")
def bias_of_another_slope(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys), bias=alibi(s))
    return right, replace(right, bias=0.7 * alibi(s))


@fault("bias-slope", "by head", "slopes")
def alibi_for_more_heads(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys), bias=alibi(s))
    return right, replace(right, bias=alibi(s, 2 * s.heads))


@fault("bias-heads", "reverse order")
def bias_of_heads_reversed(s: Sizes) -> Pair:
    right = steps(s, bias=alibi(s))
    return right, replace(right, bias=alibi(s).flip(1))


@fault("bias-transposed", "exchanged")
def bias_transposed(s: Sizes) -> Pair:
    right = steps(s, bias=table(s))
    return right, replace(right, bias=table(s).mT)


@fault("bias-scaled", "(q·k + bias) · scale")
def bias_scaled(s: Sizes) -> Pair:
    right = steps(s, bias=table(s), seen=causal(s.queries, s.keys))
    return right, replace(right, bias=table(s) * s.head_dim**-0.5)


@fault("bias-shifted", "+1")
def bias_of_another_distance(s: Sizes) -> Pair:
    right = steps(s, bias=table(s), seen=causal(s.queries, s.keys))
    place = torch.arange(s.keys) - torch.arange(s.queries)[:, None] + s.queries
    by_distance = torch.cat([table(s)[..., 1:, 0].flip(-1), table(s)[..., 0, :]], -1)
    shifted = by_distance[..., place.clamp_max(s.queries + s.keys - 2)]
    return right, replace(right, bias=shifted)


@fault("bias", "another bias", modes=("read",))
def some_other_bias(s: Sizes) -> Pair:
    right = steps(s, bias=table(s))
    return right, replace(right, bias=table(s, seed=8))


FAULTS = faults_in(globals())
