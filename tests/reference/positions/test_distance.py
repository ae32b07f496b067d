from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnscope.errors import InputError
from attnscope.reference.positions.distance import real_distance, whole_distance


def test_a_later_key_has_a_positive_distance() -> None:
    distance = whole_distance("measuring", [3], [0, 3, 5])
    assert distance.tolist() == [[-3, 0, 2]]
    assert distance.dtype == np.int64


def test_leading_axes_broadcast() -> None:
    assert whole_distance("measuring", np.zeros((4, 2), int), [0, 1, 2]).shape == (4, 2, 3)
    assert real_distance("measuring", np.zeros((1, 2)), np.zeros((5, 3))).shape == (5, 2, 3)


@pytest.mark.parametrize(
    ("function", "queries", "keys", "message"),
    [
        (whole_distance, [0.5], [0], "query_positions is of type float64"),
        (whole_distance, [0], [True], "key_positions is of type bool"),
        (whole_distance, 3, [0], "query_positions has the shape (); give it at least 1 axis"),
        (whole_distance, [[0], [1]], [[0]] * 3, "query_positions (2, 1), key_positions (3, 1)"),
        (real_distance, [np.nan], [0], "query_positions holds nan; give finite positions"),
        (real_distance, [0], [np.inf], "key_positions holds inf"),
        (real_distance, ["a"], [0], "query_positions is of type <U1"),
    ],
)
def test_positions_that_cannot_be_used_are_named(
    function: Any, queries: Any, keys: Any, message: str
) -> None:
    with pytest.raises(InputError, match=r"^measuring: ") as caught:
        function("measuring", queries, keys)
    assert message in str(caught.value)
