"""A place that was seen before is decided anew wherever something but the values differs."""

import pytest
import torch

from attnscope.capture import record

SIZE = 6  # samples, queries, keys and widths alike: nothing is told apart by its shape
ATTENDS, SUMS_SAMPLES = "bqk,bkd->bqd", "bqk,bqd->qkd"


@pytest.mark.parametrize("order", [(ATTENDS, SUMS_SAMPLES), (SUMS_SAMPLES, ATTENDS)])
def test_another_argument_on_the_same_line_is_told_apart(order: tuple[str, str]) -> None:
    x = torch.randn(SIZE, SIZE, SIZE)
    with record() as trace:
        for equation in order:
            torch.einsum(equation, (x @ x.mT).softmax(-1), x + 1)
    assert [call.replay_error for call in trace] == [0.0]
    torch.testing.assert_close(trace[0].weights()[:, 0], (x @ x.mT).softmax(-1))


@pytest.mark.parametrize("order", [(-2, -1), (-1, -2)])
def test_axes_follow_the_arguments_of_each_call(order: tuple[int, int]) -> None:
    x = torch.randn(SIZE, SIZE, SIZE)
    with record() as trace:
        for axis in order:
            (x @ (x + 1).mT).softmax(axis) @ x
    axes = {-1: "keys", -2: "queries"}
    assert [call.recipe.normaliser_axis for call in trace] == [axes[axis] for axis in order]
