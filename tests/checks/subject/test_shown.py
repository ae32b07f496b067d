"""Masks whose names say nothing: what a run hides says what True means."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnscope
from attnscope.checks.subject.subject import Subject
from tests.checks.small import SelfAttention, noise

REAL = torch.arange(7)[None] < torch.tensor([7, 4, 5])[:, None]


class Masked(SelfAttention):
    """Hides what a mask marks (or all else), as keys or, mistakenly, as queries."""

    def __init__(self, *, keeps: bool, queries: bool = False, fill: float = -1e9) -> None:
        super().__init__()
        self.keeps, self.queries, self.fill = keeps, queries, fill

    def forward(  # type: ignore[override]  # a mask beside the tokens
        self, x: Tensor, padding_mask: Tensor
    ) -> Any:
        hidden = ~padding_mask if self.keeps else padding_mask
        hidden = hidden[:, None, :, None] if self.queries else hidden[:, None, None, :]
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT / 8**0.5).masked_fill(hidden, self.fill).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


def given(*, keeps: bool) -> dict[str, Tensor]:
    return {"x": noise(3, 7, 16), "padding_mask": REAL if keeps else ~REAL}


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("queries", [False, True])
def test_what_is_hidden_is_padding(keeps: bool, queries: bool) -> None:  # noqa: FBT001  parameters
    subject = Subject(Masked(keeps=keeps, queries=queries).eval(), given(keeps=keeps))
    (padding,) = subject.roles.padding
    assert padding.meaning == ("keep" if keeps else "drop")
    assert torch.equal(padding.real(subject.given), REAL)


def test_what_hides_part_of_it_tells_nothing() -> None:
    subject = Subject(Masked(keeps=False, fill=-1.0).eval(), given(keeps=False))
    assert subject.roles.padding == ()
    whole = {"x": noise(3, 7, 16), "padding_mask": torch.zeros(3, 7, dtype=torch.bool)}
    assert Subject(Masked(keeps=False).eval(), whole).roles.padding == ()


def test_a_mask_that_is_put_on_the_queries_leaks() -> None:
    report = attnscope.check(Masked(keeps=False, queries=True).eval(), given(keeps=False))
    assert [f.code for f in report.findings if f.severity == "error"] == ["AS202"]
    assert attnscope.check(Masked(keeps=False).eval(), given(keeps=False)).ok
