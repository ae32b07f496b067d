"""Documents that are packed: which input says so, and what moves with another one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnscope.checks.probes.documents import documents
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject


def together(x: Tensor, doc_ids: Tensor) -> Tensor:
    del doc_ids
    return x + x.mean(1, keepdim=True)


def apart(x: Tensor, doc_ids: Tensor) -> Tensor:
    same = (doc_ids[:, :, None] == doc_ids[:, None]).to(x.dtype)
    return x + same @ x


def inputs() -> dict[str, Tensor]:
    x = torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(0))
    return {"x": x, "doc_ids": torch.tensor([[5, 5, 5, 8, 8, 8, 8], [5, 5, 5, 5, 5, 8, 9]])}


def test_only_tokens_of_other_documents_count() -> None:
    assert documents(Subject(apart, inputs())).moved == 0
    probed = documents(Subject(together, inputs()))
    assert probed.name == "doc_ids"
    assert probed.changed in {5, 8, 9}
    assert probed.largest > 100 * probed.noise
    assert torch.equal(probed.of, inputs()["doc_ids"])


def test_one_document_a_row_or_none_declared() -> None:
    alone = {**inputs(), "doc_ids": torch.zeros(2, 7, dtype=torch.long)}
    with pytest.raises(Skipped, match="declare expect documents"):
        documents(Subject(together, alone))
    with pytest.raises(Skipped, match="one document only"):
        documents(Subject(together, alone, {"documents": "doc_ids"}))
