from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.table = nn.Parameter(torch.randn(30, width))
        self.positions = nn.Embedding(30, width)
        self.levels = nn.Embedding(30, width)
        self.step = nn.Linear(1, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, batch_first={first})

    def forward(self, x, time=None):
        {body}
        return self.layer(x)


model = Encoder().eval()
inputs = {inputs}
"""
X = "torch.randn(3, 9, 16)"


@pytest.mark.parametrize(
    "body",
    [
        "x = x + self.table[: x.size(0), None]  # here",
        "x = x + self.positions(torch.arange(len(x))).unsqueeze(1)  # here",
        "x += self.table[: x.shape[0]].view(-1, 1, 16)  # here",
    ],
)
def test_positions_along_the_batch(tmp_path: Path, body: str) -> None:
    finding = only(tmp_path, PROGRAM.format(body=body, inputs=X, first=True), "AS502")
    assert (finding.code, finding.severity) == ("AS502", "error")
    assert finding.evidence["differs_along"] == [0]
    assert finding.evidence["axis_of_tokens"] == 1
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


def test_one_row_for_all_tokens(tmp_path: Path) -> None:
    body = "x = x + self.positions.weight[x.shape[1]]  # here"
    finding = only(tmp_path, PROGRAM.format(body=body, inputs=X, first=True), "AS502")
    assert "one row" in finding.message


@pytest.mark.parametrize(
    ("body", "inputs", "first"),
    [
        ("x = x + self.table[: x.size(1)]", X, True),
        ("x = x + self.table[: x.size(0), None]", X, False),  # (length, batch, width)
        ("x = x + self.positions(torch.arange(x.shape[1]))", X, True),
        ("x = x + self.table[: x.size(1)] + self.levels.weight[2]", X, True),  # a level of its own
        (
            "x = x + self.table[: x.size(1)] + self.step(time)[:, None]",
            f'{{"x": {X}, "time": torch.randn(3, 1)}}',
            True,
        ),  # a time step of each sample
        ("x = x + self.table[: x.size(0), None]", "torch.randn(9, 9, 16)", True),  # can't be told
        ("pass", X, True),
    ],
)
def test_other_additions_are_silent(tmp_path: Path, body: str, inputs: str, *, first: bool) -> None:
    assert found(tmp_path, PROGRAM.format(body=body, inputs=inputs, first=first), "AS502") == []


def test_a_table_of_frames_that_is_turned_to_patches(tmp_path: Path) -> None:
    program = """
    class Clip(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.space = nn.Parameter(torch.randn(1, 1, 12, width))
            self.time = nn.Parameter(torch.randn(1, 12, 1, width))
            self.qkv = nn.Linear(width, 3 * width)

        def forward(self, x):
            x = x + self.space[:, :, : x.shape[2]]
            x = x + {time}
            q, k, v = self.qkv(x.flatten(1, 2)).chunk(3, -1)
            return (q @ k.mT / 4).softmax(-1) @ v


    model = Clip().eval()
    inputs = torch.randn(2, 4, 5, 16)
    """
    wrong = "self.time[:, : x.shape[2]].transpose(1, 2)  # here"
    finding = only(tmp_path, program.format(time=wrong), "AS502")
    assert finding.source is not None
    assert finding.source.code.endswith("# here")
    assert found(tmp_path, program.format(time="self.time[:, : x.shape[1]]"), "AS502") == []
