from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        {init}
        self.shown = None

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        {body}


model = Attention()
inputs = torch.randn(2, 6, 16)
"""


def program(body: str, init: str = "pass") -> str:
    return PROGRAM.format(body=body, init=init)


@pytest.mark.parametrize(
    "body",
    [
        "return (q.detach() @ k.detach().mT / 4).softmax(-1) @ v  # here",
        "w = (q @ k.mT / 4).softmax(-1).detach(); return w @ v  # here",
        "w = F.one_hot((q @ k.mT).argmax(-1), 6).float(); return w @ v  # here",
        "w = torch.from_numpy((q @ k.mT).detach().numpy()); return w.softmax(-1) @ v  # here",
    ],
)
def test_a_way_back_that_is_cut(tmp_path: Path, body: str) -> None:
    finding = only(tmp_path, program(body), "AS902")
    assert (finding.code, finding.severity) == ("AS902", "warning")
    assert {"q.weight", "k.weight"} <= set(finding.evidence["parameters"])
    assert finding.evidence["value_gradient"] > 0
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


def test_queries_and_keys_that_start_at_zero(tmp_path: Path) -> None:
    init = "for m in (self.q, self.k): nn.init.zeros_(m.weight), nn.init.zeros_(m.bias)"
    body = "return (q @ k.mT / 4).softmax(-1) @ v"
    finding = only(tmp_path, program(body, init), "AS902")
    assert finding.evidence["stage"] == "q and k"
    assert "|dq|" in finding.message


def test_a_gradient_that_is_not_finite(tmp_path: Path) -> None:
    body = "s = q @ k.mT; return ((s - s.detach()).sqrt() + s).softmax(-1) @ v"
    finding = only(tmp_path, program(body), "AS902")
    assert finding.evidence["not_finite"] > 0


@pytest.mark.parametrize(
    "body",
    [
        "w = (q @ k.mT / 4).softmax(-1); self.shown = w.detach(); return w @ v",
        "s = (q @ k.mT).softmax(-1); h = F.one_hot(s.argmax(-1), 6) + s - s.detach(); return h @ v",
        "return (q @ k.detach().mT / 4).softmax(-1) @ v.detach()",  # a memory that stands still
        "return ((q @ k.mT / 4).softmax(-1) @ v) * 0",  # a branch that starts at zero
    ],
)
def test_ways_back_on_purpose_are_silent(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, program(body), "AS902") == []


@pytest.mark.parametrize(
    "tail", ["model.requires_grad_(False)", "model.forward = torch.no_grad()(model.forward)"]
)
def test_models_that_are_not_trained_are_silent(tmp_path: Path, tail: str) -> None:
    text = program("return (q.detach() @ k.detach().mT / 4).softmax(-1) @ v")
    assert found(tmp_path, f"{text}{tail}\n", "AS902") == []


def test_queries_alone_may_start_at_zero(tmp_path: Path) -> None:
    init = "nn.init.zeros_(self.q.weight), nn.init.zeros_(self.q.bias)"
    assert found(tmp_path, program("return (q @ k.mT / 4).softmax(-1) @ v", init), "AS902") == []
