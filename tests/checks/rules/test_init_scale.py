from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class Attention(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.wq, self.wk = (nn.Parameter(torch.randn(width, width)) for _ in range(2))
        {init}

    def forward(self, x):
        {body}


model = Attention().eval()
inputs = torch.randn(2, 9, 64)
"""
LINEAR = "return F.scaled_dot_product_attention(self.q(x)[:, None], self.k(x)[:, None], x[:, None])"
MATRIX = LINEAR.replace("self.q(x)", "(x @ self.wq)").replace("self.k(x)", "(x @ self.wk)")


@pytest.mark.parametrize(
    ("body", "init"),
    [
        (MATRIX, "pass"),
        (
            LINEAR,
            ("for m in (self.q, self.k):\n            nn.init.normal_(m.weight, std=1.0)  # here"),
        ),
        (
            LINEAR,
            (
                "self.apply(lambda m: nn.init.uniform_(m.weight, -1, 1) "
                "if hasattr(m, 'weight') else None)  # here"
            ),
        ),
    ],
)
def test_weights_that_are_drawn_too_large(tmp_path: Path, body: str, init: str) -> None:
    finding = only(tmp_path, PROGRAM.format(body=body, init=init), "AS901")
    assert (finding.code, finding.severity) == ("AS901", "warning")
    assert finding.evidence["gain_q"] * finding.evidence["gain_k"] > 12
    assert finding.evidence["scores_std"] > 6
    if "# here" in init:
        assert finding.source is not None
        assert finding.source.code.endswith("# here")


def test_weights_that_are_drawn_too_small(tmp_path: Path) -> None:
    init = "for m in (self.q, self.k): nn.init.normal_(m.weight, std=1e-5), nn.init.zeros_(m.bias)"
    finding = only(tmp_path, PROGRAM.format(body=LINEAR, init=init), "AS901")
    assert finding.evidence["scores_std"] < 1e-3


@pytest.mark.parametrize(
    ("body", "init"),
    [
        (LINEAR, "pass"),
        (LINEAR, "nn.init.xavier_uniform_(self.q.weight), nn.init.xavier_uniform_(self.k.weight)"),
        (
            LINEAR,
            "nn.init.normal_(self.q.weight, std=0.02), nn.init.normal_(self.k.weight, std=0.02)",
        ),
        (
            MATRIX.replace("(x @ self.wq)", "F.normalize(x @ self.wq, dim=-1)").replace(
                "(x @ self.wk)", "F.normalize(x @ self.wk, dim=-1)"
            ),
            "pass",
        ),
        (LINEAR, "nn.init.zeros_(self.q.weight), nn.init.zeros_(self.q.bias)"),
        (
            LINEAR,
            (
                "with torch.no_grad():\n"
                "            for m in (self.q, self.k):\n"
                "                m.weight.mul_(20 * torch.rand(64, 1).pow(4))"
            ),
        ),  # rows unlike
        (
            LINEAR,
            (
                "with torch.no_grad():\n"
                "            for m in (self.q, self.k):\n"
                "                m.weight.mul_(7), m.bias.add_(torch.randn(64))\n"
                "            nn.init.constant_(self.v.bias, 3.0)"
            ),
        ),  # scaled since they were drawn; what is filled are other numbers
        (
            LINEAR,
            (
                "nn.init.normal_(self.q.weight, std=0.5), nn.init.normal_(self.k.weight, std=0.05)"
                "\n        with torch.no_grad(): self.q.bias.mul_(0), self.k.bias.fill_(9.0)"
            ),
        ),  # what the bias of k adds to a whole row of scores
    ],
)
def test_usual_and_trained_weights_are_silent(tmp_path: Path, body: str, init: str) -> None:
    assert found(tmp_path, PROGRAM.format(body=body, init=init), "AS901") == []
