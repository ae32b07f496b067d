"""What a forward keeps: right where it depends on sizes, or is made anew; else another batch's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found

PROGRAM = """
class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.kept = {start}
        {more}

    def hidden(self, x, lengths):
        return torch.arange(x.shape[1])[None] >= lengths[:, None]

    def forward(self, x, lengths):
        {body}
        k = self.k(x) if keys is None else keys
        scores = (self.q(x) @ k.mT / 4).masked_fill(hidden[:, None], -1e9)
        return scores.softmax(-1) @ self.v(x)


model = Encoder().eval()
inputs = (torch.randn(3, 6, 16), torch.tensor([6, 3, 5]))
"""

NOT_KEPT = "hidden, keys = self.hidden(x, lengths), None"


def program(body: str, start: str = "None", more: str = "pass") -> str:
    return PROGRAM.format(start=start, more=more, body=body.replace("\n", "\n        "))


FAULTY = {
    "a mask": (
        "AS211",
        (
            "if self.kept is None:  # here\n    self.kept = self.hidden(x, lengths)\n"
            "hidden, keys = self.kept, None"
        ),
        "None",
    ),
    "a mask in a dict": (
        "AS211",
        "hidden, keys = self.kept.setdefault(x.shape, self.hidden(x, lengths)), None  # here",
        "{}",
    ),
    "a mask that hasattr asks for": (
        "AS211",
        (
            "if not hasattr(self, 'own'):  # here\n    self.own = self.hidden(x, lengths)\n"
            "hidden, keys = self.own, None"
        ),
        "None",
    ),
    "keys": (
        "AS107",
        (
            "hidden = self.hidden(x, lengths)\n"
            "self.kept = self.kept if self.kept is not None else self.k(x)  # here\n"
            "keys = self.kept"
        ),
        "None",
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_what_an_earlier_batch_left(tmp_path: Path, name: str) -> None:
    code, body, start = FAULTY[name]
    assert found(tmp_path, program(body, start), "AS211", "AS107") == [(code, "error", True)]


SOUND = {
    "of sizes alone": (
        (
            "self.kept.setdefault(x.shape[1], torch.arange(x.shape[1]))\n"
            "hidden, keys = self.kept[x.shape[1]][None] >= lengths[:, None], None"
        ),
        "{}",
    ),
    "made anew": (
        "self.kept = self.hidden(x, lengths)\nhidden, keys = self.kept, None",
        "None",
    ),
    "what came last": (
        f"{NOT_KEPT}\nkeys = self.kept\nself.kept = self.k(x).detach()",
        "None",
    ),
    "a count": (f"self.kept = (self.kept or 0) + 1\n{NOT_KEPT}", "None"),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_may_be_kept(tmp_path: Path, name: str) -> None:
    body, start = SOUND[name]
    assert not found(tmp_path, program(body, start), "AS211", "AS107")


def test_what_was_kept_before_the_check_is_put_aside(tmp_path: Path) -> None:
    _, body, start = FAULTY["a mask"]
    text = program(body, start)
    warm = text + "\nbefore = model(torch.randn(3, 6, 16), torch.tensor([2, 6, 6]))\n"
    assert [each[0] for each in found(tmp_path, warm, "AS211")] == ["AS211"]
