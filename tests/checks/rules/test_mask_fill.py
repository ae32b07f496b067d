from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.masking.specimens import checked, codes, the_finding

ATTENTION = """
class Attention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.relative = nn.Parameter(torch.tensor([0.0, -5.0]))

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        keep = torch.ones(n, n).tril()
        far = (torch.arange(n)[:, None] - torch.arange(n)).abs()
        scores = q @ k.mT / 3
        {mask}
        return {attend}


model = Attention().eval(){half}
inputs = torch.randn(2, 6, 16){half}
"""


def attention(mask: str, attend: str = "scores.softmax(-1) @ v", half: str = "") -> str:
    return ATTENTION.format(mask=mask, attend=attend, half=half)


@pytest.mark.parametrize(
    ("mask", "kind"),
    [
        ("scores = scores + keep", "zero-one"),
        ("scores = scores * keep", "times"),
        ("scores = scores.tril()", "weak"),
        ("scores = scores.masked_fill(keep == 0, 0.0)", "weak"),
        ("scores = scores.masked_fill(keep == 0, -10.0)", "weak"),
        ("scores = scores + (1 - keep) * -8.0", "weak"),
        ("scores = torch.where(keep == 1, scores, torch.full_like(scores, -5.0))", "weak"),
        ("scores[(keep == 0).expand_as(scores)] = -9", "weak"),
        ("scores = scores.masked_fill(keep == 0, 1e9)", "positive"),
        ("scores = scores - (1 - keep) * -1e9", "positive"),
        ("scores = scores.masked_fill(keep == 0, -float('-inf'))", "positive"),
    ],
)
def test_what_does_not_hide(tmp_path: Path, mask: str, kind: str) -> None:
    finding = the_finding(tmp_path, attention(f"{mask}  # here"))
    assert (finding.code, finding.severity) == ("AS207", "error")
    assert finding.evidence["kind"] == kind
    assert finding.evidence["hidden_pairs"] == 2 * 2 * 15
    assert finding.evidence["pairs"] > 0


def test_a_kernel_that_is_given_zeros_and_ones(tmp_path: Path) -> None:
    kernel = "F.scaled_dot_product_attention(q, k, v, attn_mask=keep)  # here"
    assert the_finding(tmp_path, attention("pass", kernel)).evidence["kind"] == "zero-one"
    assert codes(tmp_path, attention("pass", kernel.replace("keep", "keep.bool()"))) == []


def test_zero_times_infinity(tmp_path: Path) -> None:
    mask = "bias = (1 - keep) * float('-inf')  # here\n        scores = scores + bias"
    finding = the_finding(tmp_path, attention(mask))
    assert finding.code == "AS207"
    assert "0 times infinity" in finding.message


def test_a_fill_that_half_precision_cannot_hold_is_explained(tmp_path: Path) -> None:
    mask = "scores = scores.masked_fill(keep == 0, -1e9)  # here"
    finding = the_finding(tmp_path, attention(mask, half=".half()"))
    assert "forward raises" in finding.message
    assert "finfo" in finding.fix


@pytest.mark.parametrize(
    "mask",
    [
        "scores = scores.masked_fill(keep == 0, -1e4)",
        "scores = scores + (1 - keep) * -100.0",  # shifted windows
        "scores = scores * keep + (1 - keep) * -1e9",
        "scores = scores.tril().masked_fill(keep == 0, float('-inf'))",
        "scores = scores - 0.5 * far",  # slopes over the distance
        "scores = scores + self.relative[(far > 2).long()]",  # learned
        "scores = scores + torch.log(1.0 + far)",
        "scores = scores.masked_fill(scores < scores.topk(3).values[..., -1:], -6.0)",
    ],
)
def test_what_hides_or_is_no_mask_is_silent(tmp_path: Path, mask: str) -> None:
    assert codes(tmp_path, attention(mask)) == []


def test_what_leaks_because_of_it_is_folded_under_it(tmp_path: Path) -> None:
    program = """
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x, attention_mask):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            return (q @ k.mT + attention_mask[:, None, :]).softmax(-1) @ v


    model = Encoder().eval()
    mask = (torch.arange(6) < torch.tensor([[6], [3]])).float()
    inputs = {"x": torch.randn(2, 6, 16), "attention_mask": mask}
    """
    (finding,) = checked(tmp_path, program).findings
    assert finding.code == "AS207"
    assert [each.code for each in finding.follows] == ["AS202"]
