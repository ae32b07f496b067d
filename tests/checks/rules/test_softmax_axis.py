"""AS101: over the queries, the heads, the batch, one entry, a second time, or used transposed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from tests.checks.marks import marked
from tests.checks.rules.by_scores import ByHand, features, found, line_of, only


class OverQueries(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-2)  # over queries


class OverHeads(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(1)  # over heads


class OverBatch(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores, dim=0)  # over batch


class SumOverQueries(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        return powers / powers.sum(-2, keepdim=True)  # sum over queries


class Transposed(ByHand):
    def context(self, weights: Tensor, v: Tensor) -> Tensor:
        return weights.mT @ v  # transposed weights


class Twice(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        once = scores.softmax(-1)
        return once.softmax(-1)  # second softmax


class OverHeadsAndKeys(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        b, h, n, m = scores.shape
        flat = scores.transpose(1, 2).reshape(b, n, h * m)
        return flat.softmax(-1).view(b, n, h, m).transpose(1, 2)  # over heads and keys


class HeadsSummed(OverHeadsAndKeys):
    """Parts of one row under one softmax, summed behind v."""

    def context(self, weights: Tensor, v: Tensor) -> Tensor:
        return (weights @ v).sum(1, keepdim=True).expand_as(v)


class Renormalised(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        slots = scores.softmax(-2) + 1e-8
        return slots / slots.sum(-1, keepdim=True)


class Sigmoid(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.sigmoid()


class DualSoftmax(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1) * scores.softmax(-2)


class AdditivePooling(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.hidden, self.score = nn.Linear(24, 12), nn.Linear(12, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.score(self.hidden(x).tanh())
        weights = scores.softmax(self.dim)  # pooling
        return (weights.transpose(1, 2) @ x).squeeze(1)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "mark", "axis"),
    [
        (OverQueries, "over queries", "queries"),
        (OverHeads, "over heads", "heads"),
        (OverBatch, "over batch", "batch"),
        (OverHeadsAndKeys, "over heads and keys", "heads and keys together"),
        (SumOverQueries, "sum over queries", "queries"),
    ],
)
def test_the_axis_is_named_with_both_sums(kind: type[ByHand], mark: str, axis: str) -> None:
    finding = only("AS101", kind(), features())
    assert finding.severity == "error"
    assert finding.evidence["axis"] == axis
    assert finding.evidence["sums_over_axis"] == pytest.approx(1.0)
    assert line_of(finding) == marked(__file__, mark)


def test_weights_that_meet_v_transposed_are_told_at_the_product() -> None:
    finding = only("AS101", Transposed(), features())
    assert finding.evidence["weights_transposed"] is True
    assert line_of(finding) == marked(__file__, "transposed weights")


def test_a_second_softmax_is_told_with_the_bound_on_its_weights() -> None:
    finding = only("AS101", Twice(), features())
    assert finding.evidence["bound"] == pytest.approx(2.718281828 / (7 - 1 + 2.718281828))
    assert line_of(finding) == marked(__file__, "second softmax")


@pytest.mark.parametrize(("dim", "size"), [(-1, 1), (0, 3)])
def test_pooling_over_one_entry_or_over_the_batch(dim: int, size: int) -> None:
    finding = only("AS101", AdditivePooling(dim), features())
    assert finding.evidence["size"] == size
    assert line_of(finding) == marked(__file__, "pooling")


@pytest.mark.parametrize("kind", [ByHand, Renormalised, Sigmoid, DualSoftmax, HeadsSummed])
def test_other_ways_to_weigh_are_left_alone(kind: type[ByHand]) -> None:
    assert not found("AS101", kind(), features())


def test_pooling_over_the_tokens_is_left_alone() -> None:
    assert not found("AS101", AdditivePooling(1), features())


def test_one_query_one_head_and_one_sample_tell_nothing() -> None:
    assert not found("AS101", ByHand(heads=1), features(batch=1, length=1))


class OneQuery(ByHand):
    def forward(self, x: Tensor) -> Tensor:
        q, k = x[:, :1], x
        weights = (q @ k.mT / 5).softmax(1)  # the only query
        return weights @ x


def test_a_softmax_over_the_only_query() -> None:
    finding = only("AS101", OneQuery(), features())
    assert finding.evidence["shape"] == [3, 1, 7]
    assert line_of(finding) == marked(__file__, "the only query")


class Flattened(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.flatten().softmax(0).view_as(scores)  # flattened


def test_a_softmax_over_all_scores_of_all_samples() -> None:
    finding = only("AS101", Flattened(), features())
    assert finding.evidence["axis"] == "batch"
    assert line_of(finding) == marked(__file__, "flattened")


class InBlocks(ByHand):
    """Keys in blocks of 3; `joined` weighs each block by the sum of its exponentials."""

    joined = False

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        parts, sums = [], []
        for keys, values in zip(k.split(3, 2), v.split(3, 2), strict=True):
            parts.append(scaled_dot_product_attention(q, keys, values))  # blocks of keys
            sums.append((q @ keys.mT * q.shape[-1] ** -0.5).logsumexp(-1, keepdim=True))
        share = torch.stack(sums).softmax(0) if self.joined else 1 / len(parts)
        context = (torch.stack(parts) * share).sum(0)
        return self.out(context.transpose(1, 2).reshape(b, n, d))  # type: ignore[no-any-return]


class InPlaces(InBlocks):
    """The same queries, other keys of unequal number, as of two kinds of context."""

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        text = scaled_dot_product_attention(q, k[:, :, :2], v[:, :, :2])
        image = scaled_dot_product_attention(q, k[:, :, 2:], v[:, :, 2:])
        return self.out((text + image).transpose(1, 2).reshape(b, n, d))  # type: ignore[no-any-return]


def test_blocks_of_keys_with_a_softmax_each() -> None:
    finding = only("AS101", InBlocks(), features())
    assert (finding.evidence["blocks"], finding.evidence["keys"]) == ([3, 3, 1], 7)
    assert line_of(finding) == marked(__file__, "blocks of keys")


def test_blocks_that_compete_and_contexts_apart_are_left_alone() -> None:
    joined = InBlocks()
    joined.joined = True
    for model in (joined, InPlaces()):
        assert not found("AS101", model, features())
