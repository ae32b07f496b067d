"""Which of two sequences is the decoder's: told by what their own attention sees."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.sequences import decoded, goes_along

LENGTH = 6


class Own(nn.Module):
    """Attention of a sequence to itself, or to another one."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(8, 8), nn.Linear(8, 16)

    def forward(self, x: Tensor, source: Tensor, shown: Tensor) -> Tensor:
        q, (k, v) = self.q(x), self.kv(source).chunk(2, -1)
        return (q @ k.mT).masked_fill(~shown, float("-inf")).softmax(-1) @ v  # type: ignore[no-any-return]


class Two(nn.Module):
    """Notes and chords of one length; `joined` from the start, or read at the end."""

    def __init__(self, notes: Tensor, chords: Tensor, *, joined: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.shown, self.joined = (notes, chords), joined
        self.notes, self.chords, self.cross = Own(), Own(), Own()

    def forward(self, notes: Tensor, chords: Tensor) -> Tensor:
        if self.joined:
            x = notes + chords
            return self.notes(x, x, self.shown[0])  # type: ignore[no-any-return]
        x = notes + self.notes(notes, notes, self.shown[0])
        y = chords + self.chords(chords, chords, self.shown[1])
        return y + self.cross(y, x, torch.ones(LENGTH, LENGTH, dtype=torch.bool))  # type: ignore[no-any-return]


ALL = torch.ones(LENGTH, LENGTH, dtype=torch.bool)


def subject(notes: Tensor, chords: Tensor, *, joined: bool = False) -> Subject:
    generator = torch.Generator().manual_seed(0)
    inputs = {name: torch.randn(2, LENGTH, 8, generator=generator) for name in ("notes", "chords")}
    return Subject(Two(notes, chords, joined=joined).eval(), inputs, {"causal": True})


@pytest.mark.parametrize(
    ("notes", "chords", "expected"),
    [
        (ALL, ALL.tril(), "chords"),
        (ALL, ALL.tril(1), "chords"),
        (ALL.tril(), ALL, "notes"),
        (ALL, ALL, "notes"),
        (ALL.tril(), ALL.tril(), "notes"),
    ],
)
def test_the_one_that_looks_back_is_decoded(notes: Tensor, chords: Tensor, expected: str) -> None:
    asked = subject(notes, chords)
    main = asked.roles.main
    assert main is not None
    assert decoded(asked, main).name == expected


def test_an_encoders_sequence_does_not_go_along() -> None:
    for joined, together in ((True, True), (False, False)):
        asked = subject(ALL if not joined else ALL.tril(), ALL.tril(), joined=joined)
        notes, chords = asked.roles.streams
        assert goes_along(asked, chords, notes) is together
