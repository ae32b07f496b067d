"""AS802: the first operation that makes NaN or infinity of finite operands."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnscope.errors import InputError
from tests.checks import written
from tests.checks.marks import marked
from tests.checks.rules.by_scores import ByHand, features, found, line_of, only


class Overflows(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        powers = (scores * 1e4).exp()  # overflows
        return powers / powers.sum(-1, keepdim=True)


class Divides(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        nothing = (q - q).norm(dim=-1, keepdim=True)
        unit = q / nothing  # divides by zero
        return unit @ k.mT  # type: ignore[no-any-return]


class Empty(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        hidden = torch.arange(scores.shape[-2])[:, None] == 2  # empty row
        return scores.masked_fill(hidden, float("-inf")).softmax(-1)


class Filled(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().scores(q, k)
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill_(hidden, float("inf"))  # positive fill


class Causal(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().scores(q, k)
        return scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1) > 0, float("-inf"))


@pytest.mark.parametrize(
    ("kind", "mark", "makes"),
    [
        (Overflows, "overflows", "infinity"),
        (Divides, "divides by zero", "infinity"),
        (Filled, "positive fill", "infinity"),
    ],
)
def test_the_first_place_is_told(kind: type[ByHand], mark: str, makes: str) -> None:
    finding = only("AS802", kind(), features())
    assert (finding.severity, finding.evidence["makes"]) == ("error", makes)
    assert finding.evidence["entries_of_output"] > 0
    assert line_of(finding) == marked(__file__, mark)


def test_an_empty_row_is_told_once_as_such() -> None:
    assert not found("AS802", Empty(), features())
    finding = only("AS203", Empty(), features())
    assert finding.evidence["gives"] == "nan"
    assert line_of(finding) == marked(__file__, "empty row")


def test_minus_infinity_hides_and_is_no_fault() -> None:
    assert not found("AS802", Causal(), features())


def test_inputs_of_nan_say_nothing_of_the_model() -> None:
    with pytest.raises(InputError, match="504 of the 504 entries of x are NaN or infinite"):
        found("AS802", ByHand(), features().fill_(float("nan")))


PADDED = """
class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(30, width, padding_idx=0)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = self.q(x), self.k(x), self.v(x)
        q = {unit}  # here
        w = (q @ k.mT).masked_fill((ids == 0)[:, None], -1e9).softmax(-1)
        return w @ v


model = Attention().eval()
inputs = torch.tensor([[4, 9, 2, 7, 5, 0, 0], [3, 8, 6, 1, 4, 2, 9]])
expect = dict(padding="ids pad=0")
{tail}
"""


def test_padding_that_reaches_the_gradients(tmp_path: Path) -> None:
    unit = "q / q.square().sum(-1, keepdim=True).sqrt()"
    finding = written.only(tmp_path, PADDED.format(unit=unit, tail=""), "AS802")
    assert finding.evidence["gradients_not_finite"]
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize(
    ("unit", "tail"),
    [
        ("q / (q.norm(dim=-1, keepdim=True) + 1e-6)", ""),
        ("q / q.norm(dim=-1, keepdim=True)", "model.requires_grad_(False)"),
    ],
)
def test_padding_that_reaches_nothing(tmp_path: Path, unit: str, tail: str) -> None:
    assert written.found(tmp_path, PADDED.format(unit=unit, tail=tail), "AS802") == []
