"""A recorded program that is run again with other tensors."""

from __future__ import annotations

import pytest
import torch

from attnscope.calls.held import Held
from attnscope.calls.program import Operation, Program, Value


def chosen_rows() -> Program:
    """Return a program that takes the rows apart in which the first entry is positive."""
    rows = Held(torch.tensor([[1.0, 2.0], [3.0, 4.0], [-1.0, 5.0]]))
    positive = Operation(
        "positive", lambda x: x[x[:, 0] > 0], (Value(0),), {}, defines=(1,), needs=(0,)
    )
    apart = Operation("unbind", torch.unbind, (Value(1),), {}, defines=(2, 3), needs=(1,))
    second = Operation("mul", torch.mul, (Value(3), 2), {}, defines=(4,), needs=(3,))
    return Program({0: rows}, (positive, apart, second))


def test_it_gives_what_it_gave() -> None:
    assert chosen_rows().run([4])[4].tolist() == [6.0, 8.0]


def test_fewer_tensors_than_were_recorded_are_an_error_that_says_so() -> None:
    other = torch.tensor([[1.0, 2.0], [-3.0, 4.0], [-1.0, 5.0]])
    with pytest.raises(RuntimeError, match=r"unbind gave 2 tensors when .* gives 1"):
        chosen_rows().run([4], {0: other})
