from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class SelfAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        return self.out(F.scaled_dot_product_attention(*self.qkv(x)[:, None].chunk(3, -1))[:, 0])


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm1, self.norm2 = {norm}(width), {norm}(width)
        self.norm3 = {norm}(width)
        self.attn = SelfAttention(width)
        self.ff = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.gate = nn.Parameter(torch.ones(width))
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        {body}


model = nn.Sequential(Block(), Block()).eval()
inputs = torch.randn(2, 6, 16)
"""


def program(body: str, norm: str = "nn.LayerNorm") -> str:
    return PROGRAM.format(body=body, norm=norm)


@pytest.mark.parametrize("norm", ["nn.LayerNorm", "RMSNorm"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            (
                "x = self.norm1(x); x = x + self.attn(x)  # here\n"
                "        return x + self.ff(self.norm2(x))"
            ),
            "after the norm",
        ),
        (
            (
                "h = self.norm1(x); x = h + self.drop(self.attn(h))  # here\n"
                "        return x + self.ff(self.norm2(x))"
            ),
            "after the norm",
        ),
        (
            (
                "a = x + self.attn(self.norm1(x))\n        a = a + x  # here\n"
                "        return a + self.ff(self.norm2(a))"
            ),
            "doubled",
        ),
        (
            (
                "a = self.attn(self.norm1(x))\n        a = a + a  # here\n"
                "        return a + self.ff(self.norm2(a))"
            ),
            "doubled",
        ),
        (
            (
                "c = x.mean(1, keepdim=True); h = self.norm1(x) * (1 + c) + c\n"
                "        x = h + self.attn(h)  # here\n        return x + self.ff(self.norm2(x))"
            ),
            "after the norm",
        ),
        ("x = self.norm1(self.attn(x)); return self.norm2(x + self.ff(x))", "missing"),
        ("x = self.attn(self.norm1(x)); return x + self.ff(self.norm2(x))", "missing"),
        (
            "a = x + self.attn(self.norm1(x)); return x + self.ff(self.norm2(a))  # here",
            "block input",
        ),
        (
            "a = self.norm1(x + self.attn(x)); return self.norm2(x + self.ff(a))  # here",
            "block input",
        ),
    ],
)
def test_a_residual_at_the_wrong_place(tmp_path: Path, body: str, kind: str, norm: str) -> None:
    finding = only(tmp_path, program(body, norm), "AS904")
    assert (finding.code, finding.severity) == ("AS904", "warning")
    assert finding.evidence["kind"] == kind
    if "# here" in body:
        assert finding.source is not None
        assert finding.source.code.endswith("# here")


@pytest.mark.parametrize("norm", ["nn.LayerNorm", "RMSNorm"])
@pytest.mark.parametrize(
    "body",
    [
        "x = x + self.attn(self.norm1(x)); return x + self.ff(self.norm2(x))",  # pre-norm
        "x = self.norm1(x + self.attn(x)); return self.norm2(x + self.ff(x))",  # post-norm
        "x = x + self.norm2(self.attn(self.norm1(x))); return x + self.ff(self.norm3(x))",
        "h = self.norm1(x); return x + self.attn(h) + self.ff(h)",  # parallel
        "return x + self.attn(self.norm1(x)) + self.ff(self.norm2(x))",
        (
            "c = x.mean(1, keepdim=True); x = x + self.attn(self.norm1(x) * (1 + c) + c)\n"
            "        return x + self.ff(self.norm2(x) * (1 + c) + c)"
        ),  # modulated norms
        "x = self.norm1(1.4 * x + self.attn(x)); return self.norm2(1.4 * x + self.ff(x))",
        "x = x + self.gate * self.attn(self.norm1(x)); return x + self.gate * self.ff(x)",
        "x = x + self.drop(self.attn(self.norm1(x))); return x + self.drop(self.ff(self.norm2(x)))",
        (
            "x = x + 0.5 * self.ff(self.norm2(x)); x = x + self.attn(self.norm1(x))\n"
            "        return self.norm3(x + 0.5 * self.ff(x))"
        ),  # two halves around attention
        (
            "y = x + self.attn(self.norm1(x)); y = y + self.ff(self.norm2(y))\n"
            "        return x + self.conv(y.mT).mT"
        ),  # a skip around the whole block
        "x = x + (self.attn(self.norm1(x)) + self.gate.expand_as(x)); return x + self.ff(x)",
        "return self.attn(x)",  # nothing but attention
        "return self.ff(self.attn(x))",
    ],
)
def test_designs_are_silent(tmp_path: Path, body: str, norm: str) -> None:
    assert found(tmp_path, program(body, norm), "AS904") == []


def test_inputs_that_are_fed_in_again_at_the_first_layer_are_silent(tmp_path: Path) -> None:
    text = (
        program("return x + self.attn(self.norm1(x))")
        + """

class Injected(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        y = x
        for block in self.blocks:
            y = block(y) + x
        return y


model = Injected().eval()
"""
    )
    assert found(tmp_path, text, "AS904") == []
