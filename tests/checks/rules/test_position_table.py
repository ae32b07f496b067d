from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

ADDED = """
def table(length, width):
    place, i = torch.arange(length)[:, None].float(), torch.arange(0, width, 2).float()
    rows = torch.zeros(length, width)
    {body}
    return rows


class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.register_buffer("places", table(40, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x):
        x = x + self.places[: x.shape[1]]
        return self.attention(x, x, x)[0]


model = Encoder().eval()
inputs = torch.randn(2, 12, 16)
"""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            (
                "angle = place / 10000 ** (i / width)\n"
                "    rows[:, 0::2] = angle.sin()\n"
                "    rows[:, 1::2] = angle.sin()  # here"
            ),
            "no cosine",
        ),
        (
            (
                "rows[:, 0::2] = (place / 10000 ** (2 * i / width)).sin()  # here\n"
                "    rows[:, 1::2] = (place / 10000 ** (2 * (i + 1) / width)).cos()"
            ),
            "pairs",
        ),
        (
            (
                "angle = place / 10000 ** i  # here\n"
                "    rows[:, 0::2], rows[:, 1::2] = angle.sin(), angle.cos()"
            ),
            "steep",
        ),
        (
            (
                "angle = place / 10000 ** (2 * i / width)  # here\n"
                "    rows[:, 0::2], rows[:, 1::2] = angle.sin(), angle.cos()"
            ),
            "doubled",
        ),
        (
            (
                "angle = place * 10000 ** (i / width)  # here\n"
                "    rows[:, 0::2], rows[:, 1::2] = angle.sin(), angle.cos()"
            ),
            "growing",
        ),
        (
            (
                "angle = place / 10000 ** (i // width)  # here\n"
                "    rows[:, 0::2], rows[:, 1::2] = angle.sin(), angle.cos()"
            ),
            "one frequency",
        ),
    ],
)
def test_a_table_that_is_not_its_formula(tmp_path: Path, body: str, kind: str) -> None:
    finding = only(tmp_path, ADDED.format(body=body), "AS505")
    assert (finding.code, finding.severity) == ("AS505", "error")
    assert finding.evidence["kind"] == kind
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize(("dtype", "codes"), [("bfloat16", ["AS505"]), ("float32", [])])
def test_a_table_that_is_computed_in_half_precision(
    tmp_path: Path, dtype: str, codes: list[str]
) -> None:
    body = (
        f"place, i = place.{dtype}(), i.{dtype}()\n"
        "    angle = place * torch.exp(i * (-9.210340371976184 / width))\n"
        "    rows[:, 0::2], rows[:, 1::2] = angle.sin(), angle.cos()"
    ).replace("float32()", "float()")
    text = ADDED.format(body=body).replace("table(40,", "table(900,")
    findings = found(tmp_path, text.replace("(2, 12, 16)", "(1, 700, 16)"), "AS505")
    assert [code for code, _, _ in findings] == codes


@pytest.mark.parametrize(
    "body",
    [
        (
            "angle = place / 10000 ** (i / width)\n"
            "    rows[:, 0::2], rows[:, 1::2] = angle.sin(), angle.cos()"
        ),
        (
            "angle = place / 100 ** (i / width)\n"
            "    rows[:, 0::2], rows[:, 1::2] = angle.sin(), angle.cos()"
        ),
        "angle = place / 10000 ** (i / width); rows = torch.cat((angle.sin(), angle.cos()), -1)",
        "a = place / 10000 ** (i / (width - 2)); rows = torch.cat((a.cos(), a.sin()), -1)",
        (
            "angle = (place + 1) / 10000 ** (i / width)\n"
            "    rows[:, 0::2], rows[:, 1::2] = 3 * angle.sin(), 3 * angle.cos()"
        ),
        "rows = torch.randn(length, width)",
        "rows = place.expand(length, width) / length",
    ],
)
def test_right_and_other_tables_are_silent(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, ADDED.format(body=body), "AS505") == []


ALIBI = """
class Attention(nn.Module):
    def __init__(self, width=24, heads={heads}):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        i = torch.arange(self.heads)
        {slopes}
        at = torch.arange(n)
        {bias}
        late = torch.ones(n, n, dtype=torch.bool).triu(1)
        scores = q @ k.mT / 3
        scores = scores + bias  # there
        w = scores.masked_fill(late, -math.inf).softmax(-1)
        return (w @ v).transpose(1, 2).flatten(2)


model = Attention().eval()
inputs = torch.randn(2, 9, 24)
"""
SLOPES = "m = 2.0 ** (-8 * (i + 1) / self.heads)"
BIAS = "bias = m[:, None, None] * (at[None, :] - at[:, None])"


@pytest.mark.parametrize(
    ("heads", "slopes", "bias", "kind", "mark"),
    [
        (4, SLOPES, "bias = m[:, None, None] * (at[:, None] - at[None, :])", "rewards", "# there"),
        (4, "m = 2.0 ** (-8 * i / self.heads)  # here", BIAS, "start", "# here"),
        (8, "m = torch.pow(2.0, -(i + 2.0))  # here", BIAS, "start", "# here"),
    ],
)
def test_linear_biases(
    tmp_path: Path, heads: int, slopes: str, bias: str, kind: str, mark: str
) -> None:
    finding = only(tmp_path, ALIBI.format(heads=heads, slopes=slopes, bias=bias), "AS505")
    assert finding.evidence["kind"] == kind
    assert finding.source is not None
    assert finding.source.code.endswith(mark)


@pytest.mark.parametrize(
    ("heads", "slopes", "bias"),
    [
        (4, SLOPES, BIAS),
        (4, SLOPES, "bias = m[:, None, None] * at[None, None, :]"),
        (6, SLOPES, BIAS),
        (6, "m = torch.tensor([2.0**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])", BIAS),
        (4, "m = torch.tensor([0.3, 0.2, 0.05, 0.01])", BIAS),  # slopes of one's own
        (4, "m = -torch.tensor([0.3, 0.2, 0.05, 0.01])", BIAS),
    ],
)
def test_other_slopes_are_silent(tmp_path: Path, heads: int, slopes: str, bias: str) -> None:
    assert found(tmp_path, ALIBI.format(heads=heads, slopes=slopes, bias=bias), "AS505") == []


ROTARY = """
class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        d = width
        {init}
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        {angle}
        c, s = angle.cos().to({dtype}), angle.sin().to({dtype})
        halves = q.chunk(2, -1), k.chunk(2, -1)
        q, k = (torch.cat((a * c - b * s, a * s + b * c), -1) for a, b in halves)
        return (q.float() @ k.float().mT / 4).softmax(-1) @ v


model = Attention().eval()
inputs = torch.randn(1, {length}, 16)
"""
INIT = 'self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, d, 2) / d))'
ANGLE = "angle = torch.arange(x.shape[1])[:, None] * self.inv_freq"


@pytest.mark.parametrize(
    ("init", "angle", "dtype", "length", "kind"),
    [
        (
            INIT,
            (
                "at = torch.arange(x.shape[1])[:, None].bfloat16()\n"
                "        angle = at * self.inv_freq.bfloat16()"
            ),
            "torch.bfloat16",
            400,
            "precision",
        ),
        (
            INIT.replace("(-torch.arange(0, d, 2) / d)", "-(torch.arange(0, d, 2) // d)"),
            ANGLE,
            "torch.float32",
            8,
            "one frequency",
        ),
        (
            'self.register_buffer("inv_freq", torch.zeros(d // 2))',
            ANGLE,
            "torch.float32",
            8,
            "unfilled",
        ),
        (
            'self.register_buffer("inv_freq", torch.full((d // 2,), math.nan))',
            ANGLE,
            "torch.float32",
            8,
            "unfilled",
        ),
    ],
)
def test_rotary_tables(
    tmp_path: Path, init: str, angle: str, dtype: str, length: int, kind: str
) -> None:
    text = ROTARY.format(init=init, angle=angle, dtype=dtype, length=length)
    assert only(tmp_path, text, "AS505").evidence["kind"] == kind


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16", "torch.float16"])
def test_tables_that_are_cast_at_the_end_are_silent(tmp_path: Path, dtype: str) -> None:
    text = ROTARY.format(init=INIT, angle=ANGLE, dtype=dtype, length=400)
    assert found(tmp_path, text, "AS505") == []
