"""AS301: declared, kept and not handed on, applied twice or too late, or shown by the numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.checks.marks import marked
from tests.checks.rules.by_scores import ByHand, features, found, line_of, only


class Unscaled(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT  # no scale


class Multiplied(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        raw = q @ k.mT
        return raw * q.shape[-1] ** 0.5  # type: ignore[no-any-return]  # multiplied


class Late(Unscaled):
    def weights(self, scores: Tensor) -> Tensor:
        weights = scores.softmax(-1)
        return weights / 8**0.5  # too late


class FourthRoots(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        root = q.shape[-1] ** -0.25
        return (q * root) @ (k * root).mT  # type: ignore[no-any-return]


class OneOverWidth(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / q.shape[-1]


class Cosine(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * 8**0.5


class Kernel(ByHand):
    def __init__(self, *, keeps: float | None = None, twice: bool = False) -> None:
        super().__init__()
        self.scale, self.twice = keeps, twice

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q = q * 8**-0.5 if self.twice else q
        y = F.scaled_dot_product_attention(q, k, v)  # kernel
        return self.out(y.transpose(1, 2).reshape(b, n, d))  # type: ignore[no-any-return]


class AtOnce(ByHand):
    """Weights, v and the output projection are one product."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = nn.Parameter(torch.randn(3, 8, 24) / 5)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / q.shape[-1]  # by the width

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = self.scores(q, k).softmax(-1)
        return torch.einsum("bhij,bhje,hed->bid", weights, v, self.whole)


def loud(model: ByHand) -> ByHand:
    with torch.no_grad():
        nn.init.normal_(model.qkv.weight, std=model.qkv.in_features**-0.5)
    return model


def test_a_scale_that_is_declared_otherwise() -> None:
    finding = only("AS301", ByHand(), features(), {"scale": 0.125})
    assert finding.severity == "error"
    assert finding.evidence["scale"] == 8**-0.5
    assert finding.evidence["expected"] == 0.125
    assert not found("AS301", ByHand(), features(), {"scale": 8**-0.5})
    assert not found("AS301", Unscaled(), features(), {"scale": 1.0})


def test_no_scale_is_an_error_where_scores_are_too_large_by_it() -> None:
    finding = only("AS301", loud(Unscaled()), features())
    assert (finding.severity, finding.evidence["kind"]) == ("error", "missing")
    assert finding.evidence["score_std"] > 1.5
    assert line_of(finding) == marked(__file__, "no scale")


def test_no_scale_is_a_note_where_scores_are_small() -> None:
    model = Unscaled()
    with torch.no_grad():
        model.qkv.weight.mul_(0.3)
    assert only("AS301", model, features()).severity == "note"


def test_a_scale_that_is_multiplied() -> None:
    finding = only("AS301", loud(Multiplied()), features())
    assert (finding.severity, finding.evidence["kind"]) == ("error", "inverse")
    assert line_of(finding) == marked(__file__, "multiplied")


def test_a_scale_that_comes_after_the_softmax() -> None:
    finding = only("AS301", Late(), features())
    assert finding.evidence["kind"] == "after"
    assert line_of(finding) == marked(__file__, "too late")


def test_a_scale_of_the_module_that_its_kernel_does_not_get() -> None:
    finding = only("AS301", Kernel(keeps=0.125), features())
    assert finding.evidence["kind"] == "attribute"
    assert line_of(finding) == marked(__file__, "kernel")
    assert not found("AS301", Kernel(keeps=8**-0.5), features())
    assert not found("AS301", Kernel(keeps=8**0.5), features())


def test_a_scale_by_hand_and_by_the_kernel() -> None:
    finding = only("AS301", Kernel(twice=True), features())
    assert (finding.severity, finding.evidence["kind"]) == ("error", "twice")


def test_other_scales_on_purpose_are_no_errors() -> None:
    for kind in (FourthRoots, OneOverWidth, Cosine):
        assert not [f for f in found("AS301", loud(kind()), features()) if f.counts]


class Capped(ByHand):
    late = True

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        if self.late:
            return torch.tanh(q @ k.mT / 5) * 5 * 8**-0.5  # capped
        return torch.tanh(q @ k.mT * 8**-0.5 / 5) * 5


def test_a_scale_that_comes_after_the_cap() -> None:
    model = Capped()
    finding = only("AS301", model, features(), {"softcap": 5.0})
    assert line_of(finding) == marked(__file__, "capped")
    model.late = False
    assert not found("AS301", model, features(), {"softcap": 5.0})


def test_the_line_of_a_scale_where_the_output_projection_is_part_of_the_product() -> None:
    finding = only("AS301", AtOnce(), features(), expect={"scale": 8**-0.5})
    assert line_of(finding) == marked(__file__, "by the width")
    assert not found("AS301", AtOnce(), features(), expect={"scale": 1 / 8})
