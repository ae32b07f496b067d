from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from torch import Tensor
from torch.nn import functional as F

from tests.checks.small import SelfAttention, checked, noise
from tests.checks.written import found, only

PROGRAM = """
class Attention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        {body}
        return self.out(y.transpose(1, 2).flatten(2))


model = Attention()
inputs = torch.randn(2, 6, 16)
"""


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("y = self.drop(q @ k.mT / 3).softmax(-1) @ v", "scores"),
        ("s = F.dropout(q @ k.mT, 0.1, self.training); y = (s / 3).softmax(-1) @ v", "scores"),
        ("y = (q @ k.mT / 3).softmax(-1) @ self.drop(v)", "v"),
        ("q = self.drop(q); y = F.scaled_dot_product_attention(q, k, v)", "q"),
        ("y = F.scaled_dot_product_attention(q, self.drop(k), v)", "k"),
    ],
)
def test_dropout_before_the_weights(tmp_path: Path, body: str, place: str) -> None:
    finding = only(tmp_path, PROGRAM.format(body=f"{body}  # here"), "AS702")
    assert (finding.code, finding.severity) == ("AS702", "warning")
    assert finding.evidence["place"] == place
    assert finding.evidence["zeros"] > 0
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize(
    "body",
    [
        "y = self.drop((q @ k.mT / 3).softmax(-1)) @ v",
        "y = self.drop((q @ k.mT / 3).softmax(-1)) @ self.drop(v)",  # both, as graph attention
        "y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 * self.training)",
        "y = self.drop(F.scaled_dot_product_attention(q, k, v))",  # behind attention
        "y = F.scaled_dot_product_attention(q, k, v)",
    ],
)
def test_dropout_at_its_place_is_silent(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, PROGRAM.format(body=body), "AS702") == []


def test_a_model_in_which_nothing_drops_is_not_written_down_in_train_mode() -> None:
    class Attention(SelfAttention):
        def weigh(self, scores: Tensor) -> Tensor:
            if self.training:
                next(runs)
            return scores.softmax(-1)

    class Dropping(Attention):
        def weigh(self, scores: Tensor) -> Tensor:
            return super().weigh(F.dropout(scores, 0.2, self.training))

    for kind, expected, times in ((Attention, [], 1), (Dropping, ["AS702"], 2)):
        runs = count()  # no list: what a forward appends is taken back
        findings = checked(kind(), noise(2, 6, 16), "AS702").findings
        assert [each.code for each in findings] == expected
        assert next(runs) == times


def test_a_mask_that_is_drawn_by_hand_in_train_mode_alone(tmp_path: Path) -> None:
    body = (
        "s = q @ k.mT / 3\n        s = s * (torch.rand_like(s) > 0.2) if self.training else s\n"
        "        y = s.softmax(-1) @ v"
    )
    assert only(tmp_path, PROGRAM.format(body=body), "AS702").code == "AS702"


def test_dropout_on_what_the_projections_receive_is_silent(tmp_path: Path) -> None:
    program = PROGRAM.replace("b, n, w = x.shape", "x = self.drop(x); b, n, w = x.shape")
    body = "y = F.scaled_dot_product_attention(q, k, v)"
    assert found(tmp_path, program.format(body=body), "AS702") == []


def test_dropout_on_a_stream_that_is_attended_without_projections_is_silent(tmp_path: Path) -> None:
    program = """
    class Pool(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.drop = nn.Linear(16, 16), nn.Dropout(0.2)

        def forward(self, x):
            x = self.drop(self.embed(x))
            return x + (x @ x.mT / 4).softmax(-1) @ x


    model = Pool()
    inputs = torch.randn(2, 6, 16)
    """
    assert found(tmp_path, program, "AS702") == []
