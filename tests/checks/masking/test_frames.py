from __future__ import annotations

import torch
from torch import Tensor, nn

from attnscope.checks.masking.frames import line_of_missing, line_of_wrong, unread
from attnscope.checks.masking.lines import frames_of
from attnscope.checks.masking.seen import seen_by
from attnscope.checks.subject.subject import Subject


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, window: int = 3) -> Tensor:  # noqa: ARG001  never read
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    return scores.softmax(-1) @ v


class Layer(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return attend(x, x, x, mask)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        first: Tensor = self.layer(x, mask)
        second: Tensor = self.layer(first)
        return second


SUBJECT = Subject(
    Model(), {"x": torch.randn(2, 5, 4), "mask": torch.ones(5, 5, dtype=torch.bool).triu(1)}
)


def code(call: int, *, missing: bool) -> str | None:
    frames = frames_of(seen_by(SUBJECT, SUBJECT.calls[call]))
    found = line_of_missing(frames)
    if missing:
        return found[0].code if found is not None else None
    line = line_of_wrong(frames)
    return line.code if line is not None else None


def test_a_mask_is_missing_where_the_outermost_function_gets_none() -> None:
    assert code(0, missing=True) is None
    assert code(1, missing=True) == "second: Tensor = self.layer(first)"


def test_a_mask_that_is_read_comes_from_the_innermost_caller() -> None:
    assert code(0, missing=False) == "return attend(x, x, x, mask)"


def test_what_a_function_never_reads() -> None:
    frames = frames_of(seen_by(SUBJECT, SUBJECT.calls[0]))
    assert (frames[0].name, unread(frames[0])) == ("attend", ("window",))
    assert unread(frames[1]) == ()
