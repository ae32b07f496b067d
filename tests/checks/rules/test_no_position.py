from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.tokens = nn.Embedding(50, width)
        {init}
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, ids):
        x, n = self.tokens(ids), ids.shape[1]
        bias = torch.zeros(n, n)
        {body}
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out((q @ k.mT / 4 + bias).softmax(-1) @ v)


model = Encoder().eval()
inputs = torch.randint(1, 50, (2, 9))
"""
TABLE = "self.positions = nn.Embedding(20, width)"


@pytest.mark.parametrize(
    ("init", "body"),
    [
        (TABLE, "places = self.positions(torch.arange(n))  # here"),
        (TABLE, "x = x + self.positions(torch.arange(n) * 0)"),
        ('self.register_buffer("pe", torch.randn(20, width))', "x + self.pe[:n]  # here"),
        (
            "self.pos_conv = nn.Conv1d(width, width, 3, padding=1)",
            "places = self.pos_conv(x.mT).mT  # here",
        ),
        (
            "self.pos_proj = nn.Linear(width, width)\n        " + TABLE,
            "places = self.positions(torch.arange(n)); x = self.pos_proj(x)  # here",
        ),
        (
            "self.rel_bias = nn.Parameter(torch.randn(40))",
            (
                "at = torch.arange(n)[:, None]; gap = at - at  # here\n"
                "        bias = self.rel_bias[gap + 20]"
            ),
        ),
    ],
)
def test_positions_without_effect(tmp_path: Path, init: str, body: str) -> None:
    finding = only(tmp_path, PROGRAM.format(init=init, body=body), "AS501")
    assert (finding.code, finding.severity) == ("AS501", "warning")
    assert finding.evidence["spread_of_weights"] < 1e-5
    if "# here" in body:
        assert finding.source is not None
        assert finding.source.code.endswith("# here")


def test_tokens_without_any_positions_are_a_note(tmp_path: Path) -> None:
    text = PROGRAM.format(init="pass", body="pass")
    assert [(code, severity) for code, severity, _ in found(tmp_path, text, "AS501")] == [
        ("AS501", "note")
    ]


@pytest.mark.parametrize(
    ("init", "body"),
    [
        (TABLE, "x = x + self.positions(torch.arange(n))"),
        (
            "self.rel_bias = nn.Parameter(torch.randn(40))",
            "at = torch.arange(n); bias = self.rel_bias[at[None] - at[:, None] + 20]",
        ),
        (
            "self.pos = nn.Parameter(torch.zeros(20, width))",
            "x = x + self.pos[:n]",
        ),  # to be trained
        ("pass", "bias = bias.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)"),
        ("self.mix = nn.Conv1d(width, width, 3, padding=1)", "x = self.mix(x.mT).mT"),
        (
            "self.pos_conv = nn.Conv1d(width, width, 3, padding=1)",
            "x = x + self.pos_conv(x.mT).mT",
        ),
        ("self.pos_rnn = nn.GRU(width, width, batch_first=True)", "x = x + self.pos_rnn(x)[0]"),
        ("pass", "at = torch.arange(n); bias = -0.1 * (at[None] - at[:, None]).abs()"),
    ],
)
def test_order_that_is_known_is_silent(tmp_path: Path, init: str, body: str) -> None:
    assert found(tmp_path, PROGRAM.format(init=init, body=body), "AS501") == []


@pytest.mark.parametrize("init", ["self.pos_ffn", "self.pos_proj", "self.position_wise"])
def test_layers_of_single_tokens_are_no_positions(tmp_path: Path, init: str) -> None:
    text = PROGRAM.format(init=f"{init} = nn.Linear(width, width)", body=f"x = {init}(x)")
    assert [severity for _, severity, _ in found(tmp_path, text, "AS501")] == ["note"]


def test_a_table_that_nothing_reads_is_missed_where_tokens_come_in(tmp_path: Path) -> None:
    text = PROGRAM.format(init='self.register_buffer("pe", torch.randn(20, width))', body="pass")
    text = text.replace("ids.shape[1]", "ids.shape[1]  # here")
    finding = only(tmp_path, text, "AS501")
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


def test_a_model_without_order_is_declared(tmp_path: Path) -> None:
    text = PROGRAM.format(init=TABLE, body="pass") + 'expect = {"positions": False}\n'
    assert found(tmp_path, text, "AS501") == []


def test_sets_of_features_are_silent(tmp_path: Path) -> None:
    text = PROGRAM.format(init="pass", body="pass")
    text = text.replace("self.tokens(ids)", "ids").replace(
        "torch.randint(1, 50, (2, 9))", "torch.randn(2, 9, 16)"
    )
    assert found(tmp_path, text, "AS501") == []


BLOCKS = """
class Blocks(nn.Module):
    def __init__(self, width=16, block=24):
        super().__init__()
        self.block = block
        self.tokens = nn.Embedding(50, width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.rel_bias = nn.Parameter(torch.randn(2 * block + 1, width))

    def forward(self, ids):
        n, at = ids.shape[1], torch.arange(self.block)
        x = F.pad(self.tokens(ids), (0, 0, 0, self.block - n))
        q, k, v = self.qkv(x).chunk(3, -1)
        bias = torch.einsum("bcd, crd -> bcr", q, self.rel_bias[{gap} + self.block])
        bias = bias.masked_fill((at >= n) & (at < n)[:, None], float("-inf"))
        return ((q @ k.mT / 4 + bias).softmax(-1) @ v)[:, :n]


model = Blocks().eval()
inputs = torch.randint(1, 50, (2, 9))
"""


def test_what_fills_up_a_block_has_no_say(tmp_path: Path) -> None:
    assert found(tmp_path, BLOCKS.format(gap="(at[:, None] - at)"), "AS501") == []
    nowhere = only(tmp_path, BLOCKS.format(gap="(at[:, None] - at[:, None])"), "AS501")
    assert nowhere.severity == "warning"
