from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class Attention(nn.Module):
    def __init__(self, width=16, p=0.3):
        super().__init__()
        self.p = p
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(p)
        self.drops = [nn.Dropout(p)]

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.mT / 4).softmax(-1)
        {body}


model = Attention().eval()
inputs = torch.randn(2, 6, 16)
"""


@pytest.mark.parametrize(
    "body",
    [
        "return F.dropout(weights, self.p) @ v  # here",
        "return F.dropout(weights, 0.1, training=True) @ v  # here",
        "return self.drops[0](weights) @ v  # here",
        "return nn.Dropout(0.2)(weights) @ v  # here",
        "return torch.dropout(weights, 0.2, True) @ v  # here",
        "return F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)  # here",
        "keep = torch.rand_like(weights) > 0.1; return (weights * keep / 0.9) @ v  # here",
        "return (weights * torch.bernoulli(torch.full_like(weights, 0.9))) @ v  # here",
    ],
)
def test_dropout_that_does_not_hear_of_eval(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, PROGRAM.format(body=body), "AS701") == [("AS701", "error", True)]


@pytest.mark.parametrize(
    "body",
    [
        "return self.drop(weights) @ v",
        "return F.dropout(weights, self.p, self.training) @ v",
        "return F.dropout(weights, 0.0) @ v",
        (
            "p = self.p if self.training else 0.0; "
            "return F.scaled_dot_product_attention(q, k, v, dropout_p=p)"
        ),
        "return (weights + 0.01 * torch.randn_like(weights)) @ v",  # noise is no dropout
    ],
)
def test_dropout_of_training_alone_is_silent(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, PROGRAM.format(body=body), "AS701") == []


def test_the_numbers_are_those_of_two_seeds(tmp_path: Path) -> None:
    finding = only(tmp_path, PROGRAM.format(body="return F.dropout(weights, self.p) @ v"), "AS701")
    assert finding.evidence["rate"] == 0.3
    assert finding.evidence["same_seed"] == 0.0
    assert finding.evidence["largest"] > 0.01


def test_monte_carlo_dropout_is_declared(tmp_path: Path) -> None:
    program = PROGRAM.format(body="return F.dropout(weights, self.p) @ v")
    assert found(tmp_path, program + 'expect = {"dropout": "on in eval"}\n', "AS701") == []


def test_dropout_that_reaches_no_output_is_silent(tmp_path: Path) -> None:
    program = PROGRAM.format(body="F.dropout(weights, 0.5); return weights @ v")
    assert found(tmp_path, program, "AS701") == []
