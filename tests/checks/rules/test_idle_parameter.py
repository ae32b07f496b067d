from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        {init}

    def forward(self, x, context=None):
        {body}


model = Attention().eval()
inputs = torch.randn(2, 6, 16)
"""
PLAIN = "return self.out(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))"


def program(body: str = PLAIN, init: str = "pass") -> str:
    return PROGRAM.format(body=body, init=init)


@pytest.mark.parametrize(
    ("body", "init", "name"),
    [
        (PLAIN + "  # here", "self.scale = nn.Parameter(torch.ones(()))", "scale"),
        (PLAIN + "  # here", "self.sinks = nn.Parameter(torch.zeros(4))", "sinks"),
        (PLAIN, "self.norm = nn.LayerNorm(width)  # here", "norm.weight"),
        (
            (
                "q, k = self.q(x), self.k(x); v = self.k(x)  # here\n"
                "        return self.out(F.scaled_dot_product_attention(q, k, v))"
            ),
            "pass",
            "v.weight",
        ),
        (
            "bias = self.bias * 2  # here\n        " + PLAIN,
            "self.bias = nn.Parameter(torch.zeros(6, 6))",
            "bias",
        ),
    ],
)
def test_what_is_built_and_left_out(tmp_path: Path, body: str, init: str, name: str) -> None:
    finding = only(tmp_path, program(body, init), "AS903")
    assert (finding.code, finding.severity) == ("AS903", "warning")
    assert name in finding.evidence["parameters"]
    assert finding.evidence["moved"] == 0.0
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize(
    ("body", "init"),
    [
        (PLAIN, "pass"),
        (
            f"if context is not None: x = x + self.cross(context)\n        {PLAIN}",
            "self.cross = nn.Linear(width, width)",
        ),
        (PLAIN, "self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(4))"),
        (PLAIN, "self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)"),
        (
            "return self.out(F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1)))",
            (
                "self.qkv = nn.Linear(width, 3 * width)\n"
                "        with torch.no_grad():\n"
                "            parts = (self.q, self.k, self.v)\n"
                "            self.qkv.weight.copy_(torch.cat([m.weight for m in parts]))\n"
                "            self.qkv.bias.copy_(torch.cat([m.bias for m in parts]))"
            ),
        ),
    ],
)
def test_what_may_be_idle_is_silent(tmp_path: Path, body: str, init: str) -> None:
    assert found(tmp_path, program(body, init), "AS903") == []


def test_parts_that_a_subclass_inherits_and_does_without_are_silent(tmp_path: Path) -> None:
    tail = """
class Bare(Attention):
    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


model = Bare().eval()
"""
    assert found(tmp_path, program() + tail, "AS903") == []


def test_parameters_are_as_they_were(tmp_path: Path) -> None:
    tail = """
before = {name: value.clone() for name, value in model.state_dict().items()}
"""
    text = program(PLAIN, "self.scale = nn.Parameter(torch.ones(3))") + tail
    file = tmp_path / "again.py"
    file.write_text("")
    finding = only(tmp_path, text, "AS903")
    assert finding.evidence["parameters"] == ["scale"]
