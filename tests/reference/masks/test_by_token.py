from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnscope.errors import InputError
from attnscope.reference import masks


def test_padding_hides_the_side_that_is_padded() -> None:
    right, left = masks.padding([1, 3, 0], 3), masks.padding([1, 3, 0], 3, "left")
    assert right.shape == (3, 1, 1, 3)
    assert right[:, 0, 0].tolist() == [[True, False, False], [True] * 3, [False] * 3]
    assert left[:, 0, 0].tolist() == [[False, False, True], [True] * 3, [False] * 3]
    ids = np.array([[7, 0, 0], [5, 6, 7], [0, 0, 0]])
    np.testing.assert_array_equal(masks.padding_from_ids(ids, 0), right)


def test_documents_see_themselves_alone() -> None:
    ids = masks.document_ids([2, 3])
    found = masks.documents(ids)[0, 0]
    np.testing.assert_array_equal(found, torch.block_diag(torch.ones(2, 2), torch.ones(3, 3)) > 0)
    asking = masks.documents(np.array([[1]]), ids)
    assert asking[0, 0].tolist() == [[False, False, True, True, True]]


def test_documents_of_no_tokens_and_no_documents() -> None:
    assert masks.document_ids([0, 2]).tolist() == [[1, 1]]
    assert masks.document_ids([]).tolist() == [[]]


anything: Any = masks  # arguments of wrong types are the point
BAD: list[tuple[Any, str]] = [
    (lambda: anything.padding([4], 3), r"the lengths \[4\] for 3 keys"),
    (lambda: anything.padding([-1], 3), r"the lengths \[-1\]"),
    (lambda: anything.padding([1.0], 3), r"the lengths \[1.0\]"),
    (lambda: anything.padding([1], 3, "both"), "the side is 'both'"),
    (lambda: anything.padding_from_ids(np.ones((2, 3)), 0), "type float64"),
    (lambda: anything.documents(np.ones(3, dtype=int)), r"shape \(3,\)"),
    (
        lambda: anything.documents(np.ones((2, 3), int), np.ones((1, 3), int)),
        "same number of samples",
    ),
    (lambda: anything.padding([1], 2.5), "keys is 2.5"),
    (lambda: anything.padding_from_ids(np.ones((2, 3), int), "pad"), "pad is of type"),
    (lambda: anything.padding_from_ids(np.ones((2, 3), int), [0, 1]), "give one token id"),
    (lambda: anything.document_ids([-1, 2]), r"lengths \[-1, 2\]"),
    (lambda: anything.document_ids([1.5]), r"lengths \[1.5\]"),
    (lambda: anything.document_ids(3), "lengths 3"),
    (lambda: anything.document_ids([True]), r"lengths \[True\]"),
]


@pytest.mark.parametrize(("call", "text"), BAD, ids=[text for _, text in BAD])
def test_what_makes_no_mask_is_an_error(call: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()
