"""AS305: statistics over the batch, over later tokens, or over the masks of other samples."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tests.checks.marks import marked
from tests.checks.rules.by_scores import ByHand, features, found, line_of, only


class BatchSpread(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        raw = q @ k.mT
        return raw / raw.std()  # batch spread


class BlockMaximum(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        raw = q @ k.mT
        raw = raw / raw.abs().amax((-2, -1), keepdim=True)  # block maximum
        hidden = torch.ones(raw.shape[-2:], dtype=torch.bool).triu(1)
        return raw.masked_fill(hidden, float("-inf"))


class PlainSpread(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        raw = q @ k.mT
        return raw / raw.std().item()  # plain spread


class PlainMean(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        raw = q @ k.mT
        raw = raw * (1 / raw[0].abs().mean().item())  # plain mean
        hidden = torch.ones(raw.shape[-2:], dtype=torch.bool).triu(1)
        return raw.masked_fill(hidden, float("-inf"))


class Learned(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT * float(self.out.bias.abs().sum().item())


class RowSpread(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        raw = q @ k.mT
        return raw / raw.std(-1, keepdim=True)


class OneMore(ByHand):
    """A softmax whose denominator is larger by one: a shift of all scores does not cancel."""

    axis: tuple[int, ...] = (0, 1, 2, 3)

    def weights(self, scores: Tensor) -> Tensor:
        shift = scores.amax(self.axis, keepdim=True)
        made = (scores - shift).exp()
        return made / (1 + made.sum(-1, keepdim=True))  # one more


class OneMoreByRow(OneMore):
    axis = (-1,)


class Shifted(OneMore):
    def weights(self, scores: Tensor) -> Tensor:
        made = (scores - scores.amax()).exp()
        return made / made.sum(-1, keepdim=True)


class Counting(ByHand):
    def forward(self, x: Tensor, keep: Tensor) -> Tensor:  # type: ignore[override]
        self.keep = keep
        return super().forward(x)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = q @ k.mT * 8**-0.5
        scores = scores * self.keep.sum().log()  # count
        return scores.masked_fill(~self.keep[:, None, None], -1e9)


class Masking(Counting):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.mT * 8**-0.5).masked_fill(~self.keep[:, None, None], -1e9)


def test_the_spread_of_the_batch() -> None:
    finding = only("AS305", BatchSpread(), features())
    assert (finding.severity, finding.evidence["changed"]) == ("error", "another sample")
    assert finding.evidence["moved_by"] > 0.01
    assert line_of(finding) == marked(__file__, "batch spread")


def test_a_spread_that_is_a_plain_number() -> None:
    finding = only("AS305", PlainSpread(), features())
    assert (finding.severity, finding.evidence["changed"]) == ("error", "another sample")
    assert finding.evidence["scale"] != finding.evidence["scale_then"]
    assert line_of(finding) == marked(__file__, "plain spread")


def test_a_mean_that_is_a_plain_number_follows_later_tokens() -> None:
    finding = only("AS305", PlainMean(), features(batch=1))
    assert finding.evidence["changed"] == "a later token"
    assert line_of(finding) == marked(__file__, "plain mean")


def test_a_learned_number_stays() -> None:
    assert not found("AS305", Learned(), features())


def test_the_largest_score_of_a_causal_block() -> None:
    finding = only("AS305", BlockMaximum(), features())
    assert finding.evidence["changed"] == "a later token"
    assert line_of(finding) == marked(__file__, "block maximum")


def test_a_count_over_the_batch() -> None:
    keep = torch.ones(3, 7, dtype=torch.bool)
    keep[1, 5:] = False
    finding = only("AS305", Counting(), {"x": features(), "keep": keep})
    assert finding.evidence["changed"] == "the inputs of another sample"
    assert line_of(finding) == marked(__file__, "count")
    assert not found("AS305", Masking(), {"x": features(), "keep": keep})


class PaddedBefore(Masking):
    """Under a causal edge the queries of padding on the left see nothing but fills."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        seen = torch.ones(7, 7).tril().bool() & self.keep[:, None, None]
        return q @ k.mT * 8**-0.5 + torch.zeros(seen.shape).masked_fill(~seen, -1e4)


def test_rows_that_hold_fills_alone_say_nothing() -> None:
    keep = torch.ones(3, 7, dtype=torch.bool)
    keep[1, :3] = False
    assert not found("AS305", PaddedBefore(), {"x": features(), "keep": keep})


def test_what_stays_in_a_row_is_left_alone() -> None:
    for kind in (ByHand, RowSpread):
        assert not found("AS305", kind(), features())


def test_one_sample_has_no_mates() -> None:
    assert not found("AS305", BatchSpread(), features(batch=1))


def test_a_shift_counts_where_it_does_not_cancel() -> None:
    finding = only("AS305", OneMore(), features())
    assert (finding.evidence["of"], finding.evidence["changed"]) == ("weights", "another sample")
    assert line_of(finding) == marked(__file__, "one more")
    for kind in (OneMoreByRow, Shifted):
        assert not found("AS305", kind(), features())


class TwoMasks(ByHand):
    """Left padding and a triangle, each added as the least half number: some rows see nothing."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        raw = q @ k.mT / q.shape[-1] ** 0.5
        least = torch.finfo(torch.float16).min
        later = torch.ones(raw.shape[-2:]).triu(1)
        early = (torch.arange(raw.shape[-1]) < 3).float()
        return raw + least * later + least * early  # type: ignore[no-any-return]


def test_rows_that_see_nothing_say_nothing() -> None:
    assert not found("AS305", TwoMasks(), features())


class LongestQuery(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        q = q / q.norm(dim=-1, keepdim=True).amax((0, 2), keepdim=True)  # longest query
        return q @ k.mT


class NormOverTokens(ByHand):
    causal = True

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = q @ normalize(k, dim=2).mT  # norm over tokens
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, float("-inf")) if self.causal else scores


class NormOverFeatures(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = q @ normalize(k, dim=-1).mT
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, float("-inf"))


def test_a_statistic_that_is_taken_of_q_or_k() -> None:
    finding = only("AS305", LongestQuery(), features())
    assert (finding.evidence["of"], finding.evidence["by"]) == ("q", "amax")
    assert finding.evidence["changed"] == "another sample"
    assert line_of(finding) == marked(__file__, "longest query")


def test_a_norm_over_the_tokens_counts_under_a_causal_mask() -> None:
    finding = only("AS305", NormOverTokens(), features())
    assert (finding.evidence["of"], finding.evidence["changed"]) == ("k", "a later token")
    assert line_of(finding) == marked(__file__, "norm over tokens")
    free = NormOverTokens()
    free.causal = False
    for model in (free, NormOverFeatures()):
        assert not found("AS305", model, features())


class WeakFill(ByHand):
    """Row 0 sees nothing, and its fills let it see all."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(0)
        return q @ k.mT * 8**-0.5 + hidden * -1e4


def test_rows_that_see_nothing_are_not_judged() -> None:
    assert not found("AS305", WeakFill(), features())


class SquaresOverBatch(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        k = k * k.square().mean((0, 2), keepdim=True).rsqrt()  # squares over the batch
        return q @ k.mT


class MeanAdded(NormOverTokens):
    """Each query gets the mean of all: the future comes in, and scales nothing."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = (q + q.mean(2, keepdim=True)) @ k.mT * 8**-0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, float("-inf"))


def test_an_average_counts_where_it_scales() -> None:
    finding = only("AS305", SquaresOverBatch(), features())
    assert finding.evidence["by"] == "mean"
    assert line_of(finding) == marked(__file__, "squares over the batch")
    assert not found("AS305", MeanAdded(), features())
