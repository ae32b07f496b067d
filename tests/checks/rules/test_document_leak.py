"""AS209: documents in one row, by ids and by boundaries."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.checks.finding import Finding
from tests.checks.marks import marked


def found(model: Any, inputs: Any, expect: dict[str, Any] | None = None) -> list[Finding]:
    report = attnscope.check(model.eval(), inputs, expect=expect, select=["AS209"])
    assert not [each for each in report.rules_skipped if each.failed]
    return list(report.findings)


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.tokens = nn.Embedding(30, 24)
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def seen(self, doc_ids: Tensor) -> Tensor:
        return (doc_ids[:, :, None] == doc_ids[:, None]).tril()

    def forward(self, ids: Tensor, doc_ids: Tensor) -> Any:
        b, t = ids.shape
        q, k, v = self.qkv(self.tokens(ids)).view(b, t, 3, 3, 8).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / math.sqrt(8)
        scores = scores.masked_fill(~self.seen(doc_ids)[:, None], -math.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))


class Ordered(Packed):
    def seen(self, doc_ids: Tensor) -> Tensor:
        same = doc_ids[:, :, None] >= doc_ids[:, None]  # ordered
        return same & torch.ones(same.shape[1:], dtype=torch.bool).tril()


class Ignored(Packed):
    def seen(self, doc_ids: Tensor) -> Tensor:
        return torch.ones(
            1, doc_ids.shape[1], doc_ids.shape[1], dtype=torch.bool
        ).tril()  # order alone


class KeysAlone(Packed):
    def seen(self, doc_ids: Tensor) -> Tensor:
        return (doc_ids >= 0)[:, None]  # keys alone


class Encoder(Packed):
    def seen(self, doc_ids: Tensor) -> Tensor:
        return doc_ids[:, :, None] <= doc_ids[:, None]  # an encoder's


def inputs() -> dict[str, Tensor]:
    ids = torch.randint(0, 30, (2, 9), generator=torch.Generator().manual_seed(0))
    return {"ids": ids, "doc_ids": torch.tensor([[0] * 4 + [1] * 5, [0] * 3 + [1] * 2 + [2] * 4])}


@pytest.mark.parametrize(
    ("kind", "mark"),
    [
        (Ordered, "ordered"),
        (Ignored, "order alone"),
        (KeysAlone, "keys alone"),
        (Encoder, "an encoder's"),
    ],
)
def test_the_line_that_shows_other_documents(kind: type[Packed], mark: str) -> None:
    (finding,) = found(kind(), inputs(), {"documents": "doc_ids"})
    assert (finding.code, finding.severity) == ("AS209", "error")
    assert finding.source is not None
    assert finding.source.line == marked(__file__, mark)
    assert finding.evidence["moved_in_others"] > 100 * finding.evidence["noise"]


def test_documents_that_are_kept_apart_are_silent() -> None:
    assert not found(Packed(), inputs(), {"documents": "doc_ids"})
    assert not found(Packed(), inputs())


def test_an_input_that_is_called_so_says_it_by_itself() -> None:
    assert found(Ignored(), inputs())


class Boundaries(Packed):
    def forward(self, ids: Tensor, cu_seqlens: Tensor) -> Any:
        del cu_seqlens
        return super().forward(ids[None], torch.zeros(1, len(ids), dtype=torch.long))[0]


class Kept(Packed):
    def forward(self, ids: Tensor, cu_seqlens: Tensor) -> Any:
        of = (torch.arange(len(ids))[:, None] >= cu_seqlens[1:]).sum(-1)
        return super().forward(ids[None], of[None])[0]


def test_boundaries_of_sequences_that_lie_end_to_end() -> None:
    ids = torch.randint(0, 30, (9,), generator=torch.Generator().manual_seed(0))
    given = {"ids": ids, "cu_seqlens": torch.tensor([0, 4, 9])}
    assert found(Boundaries(), given)
    assert not found(Kept(), given)


def test_segments_of_another_kind_are_left_alone() -> None:
    class Segments(Packed):
        def forward(self, ids: Tensor, token_type_ids: Tensor) -> Any:
            return super().forward(ids, torch.zeros_like(token_type_ids))

    given = {"ids": inputs()["ids"], "token_type_ids": inputs()["doc_ids"]}
    assert not found(Segments(), given)
