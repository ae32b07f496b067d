from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.masking.specimens import codes, the_finding

ATTENTION = """
class Attention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        keep = torch.ones(n, n).tril()
        weights = {softmax}
        {after}


model = Attention().eval()
inputs = torch.randn(2, 6, 16)
"""
SOFTMAX = "(q @ k.mT / 3).softmax(-1)"


def attention(after: str, softmax: str = SOFTMAX) -> str:
    return ATTENTION.format(after=after, softmax=softmax)


@pytest.mark.parametrize(
    "mask",
    [
        "weights.tril()",
        "weights * keep",
        "weights.masked_fill(keep == 0, 0.0)",
        "torch.where(keep == 1, weights, 0.0)",
        "weights.masked_fill_(keep == 0, 0)",
    ],
)
def test_weights_that_are_zeroed_and_not_divided_again(tmp_path: Path, mask: str) -> None:
    finding = the_finding(tmp_path, attention(f"return ({mask} @ v).sum(1)  # here"))
    assert (finding.code, finding.severity) == ("AS204", "error")
    assert finding.evidence["rows"] == 2 * 2 * 5  # all but the last query
    assert finding.evidence["all_rows"] == 2 * 2 * 6
    assert finding.evidence["zeroed"] == 2 * 2 * 15
    assert 0 < finding.evidence["least_sum"] < finding.evidence["mean_sum"] < 1


@pytest.mark.parametrize(
    "after",
    [
        "w = weights * keep; return (w / w.sum(-1, keepdim=True)) @ v",
        "w = weights * keep; return (w @ v) / w.sum(-1, keepdim=True)",
        "return F.normalize(weights * keep, p=1, dim=-1) @ v",
        "return (weights * (torch.arange(n) < 4).float()[:, None]) @ v",  # whole rows
        "top = weights.topk(3).values[..., -1:]; return (weights * (weights >= top)) @ v",
        "return (weights * torch.tensor([0.5, 2.0])[:, None, None]) @ v",  # gates of heads
        "return F.dropout(weights, 0.5, self.training) @ v",
        "return weights @ v",
    ],
)
def test_what_is_whole_again_or_no_mask_is_silent(tmp_path: Path, after: str) -> None:
    assert codes(tmp_path, attention(after)) == []


def test_zeroing_what_was_hidden_before_is_silent(tmp_path: Path) -> None:
    hidden = '(q @ k.mT / 3).masked_fill(keep == 0, float("-inf")).softmax(-1)'
    assert codes(tmp_path, attention("return (weights * keep) @ v", hidden)) == []


def test_sigmoid_weights_are_no_shares(tmp_path: Path) -> None:
    assert (
        codes(tmp_path, attention("return (weights * keep) @ v", "(q @ k.mT / 3).sigmoid()")) == []
    )


@pytest.mark.parametrize(
    "mask", ["(weights + (keep - 1) * 1e9)", "weights.masked_fill(keep == 0, -1e4)"]
)
def test_a_fill_for_scores_that_meets_weights(tmp_path: Path, mask: str) -> None:
    finding = the_finding(tmp_path, attention(f"return ({mask} @ v).sum(1)  # here"))
    assert finding.code == "AS204"
    assert "a fill that is meant for scores" in finding.message
    assert finding.evidence["least_sum"] < 0
