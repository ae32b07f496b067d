"""What a port gets wrong from the scores to the context."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tests.explain.faults import Pair, alibi, causal_padded, fault, faults_in
from tests.explain.scenes import Sizes, Steps, causal, steps


def _sunk(s: Sizes) -> Steps:
    sinks = torch.linspace(-1, 1.5, s.heads, dtype=torch.float64)[None, :, None, None]
    return steps(s, seen=causal(s.queries, s.keys), sinks=sinks)


@fault("sinks", "no sinks")
def sinks_missing(s: Sizes) -> Pair:
    right = _sunk(s)
    return right, replace(right, sinks=None)


@fault("sinks", "other sign")
def sinks_of_the_other_sign(s: Sizes) -> Pair:
    right = _sunk(s)
    assert right.sinks is not None
    return right, replace(right, sinks=-right.sinks)


@fault("sinks", "reference has none", modes=("read", "unread", "opaque"))
def sinks_extra(s: Sizes) -> Pair:
    right = _sunk(s)
    return replace(right, sinks=None), right


@fault("sinks", "before the keys", readable=False)
def sink_at_the_wrong_end(s: Sizes) -> Pair:
    right = _sunk(s)
    assert right.sinks is not None
    sinks = right.sinks

    def weigh(own: Steps, scores: Tensor) -> Tensor:
        del own
        columns = sinks.expand(*scores.shape[:-1], 1)
        return torch.cat([columns, scores], -1).softmax(-1)[..., :-1]

    return right, replace(right, weigh=weigh)


def _over(s: Sizes, axis: int) -> Pair:
    right = steps(s)
    return right, replace(right, weigh=lambda _, scores: scores.softmax(axis))


@fault("softmax-axis", "queries", readable=False)
def softmax_over_queries(s: Sizes) -> Pair:
    return _over(s, -2)


@fault("softmax-axis", "heads", readable=False)
def softmax_over_heads(s: Sizes) -> Pair:
    return _over(s, 1)


@fault("softmax-axis", "batch", readable=False)
def softmax_over_the_batch(s: Sizes) -> Pair:
    return _over(s, 0)


@fault("softmax-axis", "queries", readable=False)
def causal_softmax_over_queries(s: Sizes) -> Pair:
    right = steps(s, seen=causal(s.queries, s.keys))
    return right, replace(right, weigh=lambda _, scores: scores.softmax(-2))


@fault("normaliser", "sigmoid", "softmax", readable=False)
def sigmoid_weights(s: Sizes) -> Pair:
    right = causal_padded(s)
    return right, replace(right, weigh=lambda _, scores: scores.sigmoid())


@fault("normaliser", "softmax-off-by-one", readable=False, also=("sinks",))
def off_by_one(s: Sizes) -> Pair:
    right = causal_padded(s)

    def weigh(own: Steps, scores: Tensor) -> Tensor:
        del own
        return scores.exp() / (1 + scores.exp().sum(-1, keepdim=True))

    return right, replace(right, weigh=weigh)


@fault("normaliser", "softmax of a softmax", readable=False)
def softmax_twice(s: Sizes) -> Pair:
    right = steps(s)
    return right, replace(right, weigh=lambda _, scores: scores.softmax(-1).softmax(-1))


@fault("normaliser", "relu", readable=False)
def relu_over_keys(s: Sizes) -> Pair:
    right = causal_padded(s)
    return right, replace(right, weigh=lambda _, scores: scores.relu() / s.keys)


@fault("normaliser", "sigmoid divided by the sum", readable=False)
def sigmoid_over_its_sum(s: Sizes) -> Pair:
    right = causal_padded(s)

    def weigh(own: Steps, scores: Tensor) -> Tensor:
        del own
        return scores.sigmoid() / scores.sigmoid().sum(-1, keepdim=True)

    return right, replace(right, weigh=weigh)


@fault("bias-extra", "ALiBi", readable=False, modes=("opaque", "output"))
def alibi_extra(s: Sizes) -> Pair:
    right = steps(s)
    return right, replace(right, bias=alibi(s))


def _met(s: Sizes, k_met: list[int] | None, v_met: list[int] | None) -> Pair:
    right = causal_padded(s)
    wrong = replace(right, k_met=k_met or right.k_met, v_met=v_met or right.v_met)
    return right, wrong


@fault("kv-heads-tiled", "tiled", readable=False, grouped=True)
def kv_heads_tiled(s: Sizes) -> Pair:
    met = [head % s.kv_heads for head in range(s.heads)]
    return _met(s, met, met)


@fault("kv-heads-tiled", "v alone", readable=False, grouped=True)
def values_tiled(s: Sizes) -> Pair:
    return _met(s, None, [head % s.kv_heads for head in range(s.heads)])


@fault("kv-heads-first", "first kv head", readable=False, grouped=True)
def first_kv_head(s: Sizes) -> Pair:
    return _met(s, [0] * s.heads, [0] * s.heads)


@fault("kv-heads", "kv heads", readable=False, grouped=True, modes=("unread", "opaque"))
def kv_heads_mixed(s: Sizes) -> Pair:
    met = [(head * head + 1) % s.kv_heads for head in range(s.heads)]
    return _met(s, met, met)


@fault("weights-factor", "1.03", readable=False)
def weights_times(s: Sizes) -> Pair:
    right = causal_padded(s)
    return right, replace(right, finish=lambda weights: weights * 1.03)


@fault("weights-factor", "1/(1 - 0.1)", readable=False)
def rescaled_but_not_dropped(s: Sizes) -> Pair:
    right = causal_padded(s)
    return right, replace(right, finish=lambda weights: weights / 0.9)


@fault("weights-factor", "heads are multiplied", readable=False, modes=("unread", "opaque"))
def weights_times_by_head(s: Sizes) -> Pair:
    right = causal_padded(s)
    gates = torch.linspace(0.5, 1.5, s.heads, dtype=torch.float64)[:, None, None]
    return right, replace(right, finish=lambda weights: weights * gates)


@fault("weights-transposed", "transposed", readable=False)
def weights_transposed(s: Sizes) -> Pair:
    right = causal_padded(s)
    return right, replace(right, finish=lambda weights: weights.mT)


@fault("values-transposed", "exchanged", modes=("opaque", "output"))
def values_transposed(s: Sizes) -> Pair:
    right = steps(replace(s, value_dim=s.keys))
    return right, replace(right, v=right.v.mT)


@fault("dropout", "dropout is active", readable=False, modes=("unread",))
def dropout_active(s: Sizes) -> Pair:
    right = causal_padded(s)
    kept = torch.rand(s.batch, s.heads, s.queries, s.keys) > 0.2
    return right, replace(right, finish=lambda weights: weights * kept / 0.8)


FAULTS = faults_in(globals())
