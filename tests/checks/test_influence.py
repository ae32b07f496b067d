"""Where a change goes too far: the very operation that mixes what should stay apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from attnscope.capture.tape import Tape
from attnscope.checks.influence import Allowed, differs, first_mixing, moved
from tests.checks.small import noise

LENGTH = 6
WEIGHT = noise(8, 8, 3, seed=4)
TABLE = noise(8, 8, seed=5)


def taped(run: Callable[..., Any], *tensors: Tensor) -> Tape:
    tape = Tape()
    with tape.writing():
        run(*tensors)
    return tape


def view(x: Tensor) -> Tensor:
    y = (x @ TABLE) * 2
    return y.view(2, 4, LENGTH, 2).relu()


def over_time(x: Tensor) -> Tensor:
    y = (x @ TABLE).tanh()
    return y.softmax(1).exp()


def over_features(x: Tensor) -> Tensor:
    return (x @ TABLE).softmax(-1)


def summed(x: Tensor) -> Tensor:
    y = x.sin()
    return y.cumsum(1) + y


def normalised(x: Tensor) -> Tensor:
    y = x.sin().transpose(1, 2)
    return F.instance_norm(y).transpose(1, 2)


def convolved(x: Tensor) -> Tensor:
    y = x.sin().transpose(1, 2)
    return F.conv1d(y, WEIGHT, padding=1).transpose(1, 2)


def attended(x: Tensor) -> Tensor:
    scores = x @ x.mT
    weights = scores.softmax(-1)
    return weights @ x


def masked(x: Tensor) -> Tensor:
    scores = (x @ x.mT).masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), -1e9)
    return scores.softmax(-1) @ x


def summed_in_place(x: Tensor) -> Tensor:
    y = x.sin()
    y.cumsum_(1)
    return y * 2


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (view, "view"),
        (over_time, "softmax"),
        (over_features, None),
        (normalised, "instance_norm"),
        (convolved, "conv1d"),
        (attended, "softmax"),
        (masked, None),
    ],
)
def test_the_operation_that_mixes_tokens(run: Callable[..., Any], name: str | None) -> None:
    """The last token is changed: no earlier one may move."""
    x = noise(2, LENGTH, 8)
    tape = taped(run, x)
    other = x.clone()
    other[:, -1] += 1.0
    value = tape.value_of(x)
    assert value is not None
    entries = moved(tape, {value: other})
    found = first_mixing(tape, entries, Allowed(torch.arange(LENGTH) == LENGTH - 1))
    assert (found.name if found is not None else None) == name
    if found is not None:
        assert found.source is not None
        assert found.source.function == run.__name__


@pytest.mark.parametrize(("run", "name"), [(summed, "cumsum"), (summed_in_place, "cumsum_")])
def test_a_sum_over_time_is_named_where_later_tokens_must_not_move(
    run: Callable[..., Any], name: str
) -> None:
    x = noise(2, LENGTH, 8)
    tape = taped(run, x)
    other = torch.cat((x[:, :1] + 1.0, x[:, 1:]), 1)
    value = tape.value_of(x)
    assert value is not None
    entries = moved(tape, {value: other})
    found = first_mixing(tape, entries, Allowed(torch.arange(LENGTH) == 0))
    assert found is not None
    assert found.name == name


def test_what_does_not_depend_on_the_change_is_left_out() -> None:
    x, y = noise(2, 3), noise(2, 3, seed=1)
    tape = taped(lambda a, b: (a * 2, b * 3), x, y)
    value = tape.value_of(x)
    assert value is not None
    assert [bool(each.all()) for each in moved(tape, {value: x + 1}).values()] == [True]


def test_values_that_are_not_asked_about_are_left_out() -> None:
    x = noise(2, LENGTH, 8)
    tape = taped(attended, x)
    value = tape.value_of(x)
    assert value is not None
    whole = moved(tape, {value: x + 1.0})
    last = max(whole)
    assert len(whole) > 1
    some = moved(tape, {value: x + 1.0}, {last})
    assert list(some) == [last]
    assert torch.equal(some[last], whole[last])


def test_the_unchanged_run_is_worked_out_once_and_stays_what_it_was() -> None:
    x = noise(2, LENGTH, 8)
    tape = taped(summed_in_place, x)
    value = tape.value_of(x)
    assert value is not None
    (sine, *_) = moved(tape, {value: x + 1.0})
    before = tape.as_made([sine])[sine]
    assert torch.equal(before, x.double().sin())
    moved(tape, {value: x + 2.0})
    assert tape.as_made([sine])[sine] is before
    assert torch.equal(before, x.double().sin())


ROW = torch.tensor([False, True, False])


@pytest.mark.parametrize(
    ("shape", "at", "holds"),
    [
        ((3, 5), (1,), True),
        ((3, 5), (2,), False),
        ((5, 3), (slice(None), 1), True),
        ((12,), (slice(4, 8),), True),  # (3, 4) merged
        ((12,), (slice(1, None, 3),), True),  # (4, 3) merged
        ((12,), (slice(0, 4),), False),
        ((2, 12), (0, slice(5, 8)), True),
        ((5, 7), (0,), False),
    ],
)
def test_what_is_allowed(shape: tuple[int, ...], at: tuple[Any, ...], holds: bool) -> None:  # noqa: FBT001  an expected value
    entries = torch.zeros(shape, dtype=torch.bool)
    entries[at] = True
    assert Allowed(ROW).holds(entries) is holds


def test_an_axis_merged_between_two_others_is_taken_apart() -> None:
    whole = torch.zeros(2, 3, 4, dtype=torch.bool)
    whole[:, 1] = True
    assert Allowed(ROW).holds(whole.reshape(24))
    whole[0, 0, 0] = True
    assert not Allowed(ROW).holds(whole.reshape(24))


def test_queries_and_keys_may_move_in_their_rows_and_columns() -> None:
    entries = torch.zeros(3, 3, dtype=torch.bool)
    entries[1] = entries[:, 1] = True
    assert Allowed(ROW).holds(entries)
    entries[0, 2] = True
    assert not Allowed(ROW).holds(entries)


def test_nothing_that_moved_is_always_allowed() -> None:
    assert Allowed(ROW).holds(torch.zeros(2, 2, dtype=torch.bool))


def test_rounding_is_no_difference_and_a_fill_is_no_measure() -> None:
    before = torch.tensor([1.0, 0.3, -1e10], dtype=torch.float64)
    assert not differs(before, before * (1 + 1e-14)).any()
    after = torch.tensor([1.0, 0.31, -1e10], dtype=torch.float64)
    assert differs(before, after).tolist() == [False, True, False]


def test_infinities_and_no_numbers_are_compared_as_such() -> None:
    before = torch.tensor([float("nan"), float("inf"), float("nan"), 1.0], dtype=torch.float64)
    after = torch.tensor([float("nan"), float("inf"), 1.0, float("inf")], dtype=torch.float64)
    assert differs(before, after).tolist() == [False, False, True, True]


def test_whole_numbers_and_empty_tensors() -> None:
    assert differs(torch.tensor([1, 2]), torch.tensor([1, 3])).tolist() == [False, True]
    assert differs(torch.zeros(0).double(), torch.zeros(0).double()).shape == (0,)
