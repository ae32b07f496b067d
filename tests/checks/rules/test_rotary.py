from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
def half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def pairs(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def turned(x, cos, sin, across=half):
    return x * cos + across(x) * sin


class Attention(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        b, n, w = x.shape
        d = w // self.heads
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        twice, each = torch.cat((angle, angle), -1), angle.repeat_interleave(2, -1)
        {body}
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


model = Attention().eval()
inputs = torch.randn(2, 9, 24)
"""
TURN = """
class Turn(nn.Module):
    def forward(self, x):
        n, d = x.shape[-2:]
        angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        angle = torch.cat((angle, angle), -1)
        return turned(x, angle.cos(), angle.sin())


"""
PLAIN = "q, k = turned(q, twice.cos(), twice.sin()), turned(k, twice.cos(), twice.sin())"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            (
                "each = angle.repeat_interleave(2, -1)  # here\n"
                "        q = q * each.cos() + half(q) * each.sin()\n"
                "        k = k * each.cos() + half(k) * each.sin()"
            ),
            "no rotation",
        ),
        (
            (
                "q = q * twice.cos() + half(q) * twice.sin()\n"
                "        k = k * twice.cos() + half(q) * twice.sin()  # here"
            ),
            "two vectors",
        ),
        (
            (
                "q = q * twice.cos() + pairs(q) * twice.sin()  # here\n"
                "        k = k * twice.cos() + pairs(k) * twice.sin()"
            ),
            "no rotation",
        ),
        (
            (
                "sin = each.sin()\n"
                "        cos = torch.cat((angle.cos(), angle.cos()), -1)  # here\n"
                "        q, k = (turned(t, cos, sin, pairs) for t in (q, k))"
            ),
            "no rotation",
        ),
        (
            (
                "cos, sin = twice.cos(), torch.stack((angle.sin(), angle.sin()), -1).flatten(-2)"
                "  # here\n"
                "        q, k = (torch.addcmul(t * cos, half(t), sin) for t in (q, k))"
            ),
            "no rotation",
        ),
        ("q = turned(q, twice.cos(), twice.sin())  # here", "one side"),
        ("k = turned(k, twice.cos(), twice.sin())  # here", "one side"),
        (PLAIN + "\n        k = turned(k, twice.cos(), twice.sin())  # here", "twice"),
        (PLAIN + "\n        " + PLAIN + "  # here", "twice"),
        (
            (
                "q = turned(q, twice.cos(), twice.sin())\n"
                "        k = turned(k, twice.cos(), -twice.sin())  # here"
            ),
            "not relative",
        ),
        (
            (
                "angle = torch.arange(3)[:, None, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)\n"
                "        a = torch.cat((angle, angle), -1)\n"
                "        q, k = turned(q, a.cos(), a.sin()), turned(k, a.cos(), a.sin())  # here"
            ),
            "axis",
        ),
    ],
)
def test_what_breaks_distances(tmp_path: Path, body: str, kind: str) -> None:
    finding = only(tmp_path, PROGRAM.format(body=body), "AS503")
    assert (finding.code, finding.severity) == ("AS503", "error")
    assert finding.evidence["kind"] == kind
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


def test_a_module_that_turns_is_called_for_one_side(tmp_path: Path) -> None:
    text = PROGRAM.replace("class Attention", TURN + "class Attention", 1)
    text = text.replace("self.qkv = ", "self.turn = Turn()\n        self.qkv = ", 1)
    finding = only(tmp_path, text.format(body="q, k = (q, self.turn(k))  # here"), "AS503")
    assert finding.evidence["kind"] == "one side"
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


LATENT = (
    "down = F.layer_norm(x @ torch.eye(w)[:, :8], (8,))\n"
    "        q = F.linear(down, self.qkv.weight[:w, :8]).unflatten(-1, (self.heads, d))\n"
    "        q = q.transpose(1, 2)\n        "
)


@pytest.mark.parametrize(("more", "count"), [("", 1), (PLAIN, 0)])
def test_queries_made_of_narrowed_tokens(tmp_path: Path, more: str, count: int) -> None:
    body = LATENT + (more or "k = turned(k, twice.cos(), twice.sin())")
    assert len(found(tmp_path, PROGRAM.format(body=body), "AS503")) == count


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        PLAIN,
        "q, k = (torch.addcmul(t * twice.cos(), half(t), twice.sin()) for t in (q, k))",
        "q, k = (turned(t, each.cos(), each.sin(), pairs) for t in (q, k))",
        (
            "t = 500000.0 ** (-torch.arange(0, d, 2) / d) * torch.arange(n)[:, None]\n"
            "        t = torch.cat((t, t), -1)\n"
            "        q, k = turned(q, t.cos(), t.sin()), turned(k, t.cos(), t.sin())"
        ),  # another base
        (
            "c, s = twice[:, :4].cos(), twice[:, :4].sin()\n"
            "        c, s = angle[:, :2].repeat(1, 2).cos(), angle[:, :2].repeat(1, 2).sin()\n"
            "        q = torch.cat((turned(q[..., :4], c, s), q[..., 4:]), -1)\n"
            "        k = torch.cat((turned(k[..., :4], c, s), k[..., 4:]), -1)"
        ),  # a part of the head
        (
            "z = torch.polar(torch.ones_like(angle), angle)\n"
            "        q, k = (t.reshape(*t.shape[:-1], -1, 2).contiguous() for t in (q, k))\n"
            "        q, k = (torch.view_as_real(torch.view_as_complex(t) * z)"
            ".flatten(-2) for t in (q, k))"
        ),
        (
            "rows, cols = (torch.arange(n) // 3)[:, None], (torch.arange(n) % 3)[:, None]\n"
            "        f = 100.0 ** (-torch.arange(2) / 2)\n"
            "        a, e = (rows * f).repeat(1, 2), (cols * f).repeat(1, 2)\n"
            "        q, k = (torch.cat((turned(t[..., :4], a.cos(), a.sin()), "
            "turned(t[..., 4:], e.cos(), e.sin())), -1) for t in (q, k))"
        ),  # two-dimensional
        "q, k = (turned(t, 1.1 * twice.cos(), 1.1 * twice.sin()) for t in (q, k))",  # stretched
        "q, k = (turned(t, twice.cos(), -twice.sin()) for t in (q, k))",  # the other way round
        PLAIN + "; q = q * torch.log(torch.arange(n) + 2.0)[:, None]",  # a temperature by place
    ],
)
def test_designs_are_silent(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, PROGRAM.format(body=body), "AS503") == []


def test_numbers_that_are_none_are_no_strangers(tmp_path: Path) -> None:
    body = f"q[0, :, 1] = k[0, :, 1] = float('nan')\n        {PLAIN}"
    assert found(tmp_path, PROGRAM.format(body=body), "AS503") == []


def test_the_same_tables_in_every_layer_are_silent(tmp_path: Path) -> None:
    program = (
        PROGRAM.format(body=PLAIN) + "\nmodel = nn.Sequential(Attention(), Attention()).eval()"
    )
    assert found(tmp_path, program, "AS503") == []


SUMMARIES = """
class Compressed(Attention):
    def forward(self, x):
        b, n, w = x.shape
        d = w // self.heads
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        twice = torch.cat((angle, angle), -1)
        q, k = turned(q, twice.cos(), twice.sin()), turned(k, twice.cos(), twice.sin())
        short = self.qkv(x[:, : n // 4 * 4].unflatten(1, (-1, 4)).mean(2))[..., w : w + d]
        at = twice[: n // 4 * 4 : 4]
        short = turned(short.unsqueeze(1), at.cos(), at.sin()).expand(-1, self.heads, -1, -1)
        k, v = torch.cat((k, short), 2), torch.cat((v, short), 2)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


model = Compressed().eval()
"""


@pytest.mark.parametrize("samples", [2, 3])
def test_a_part_of_the_keys_with_places_of_its_own_is_silent(tmp_path: Path, samples: int) -> None:
    program = PROGRAM.format(body=PLAIN) + SUMMARIES  # of 9 tokens, 2 summaries: as many as samples
    program = program.replace("randn(2, 9", f"randn({samples}, 9")
    assert found(tmp_path, program, "AS503") == []
