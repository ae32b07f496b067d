"""What a step is given: its tokens, masks from the first token on, how many came before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.checks.decoding.cutting import counted, step_of
from attnscope.checks.subject.subject import Subject


def offsets(tokens: Tensor, start_pos: int = 0) -> Tensor:
    return tokens + start_pos


def places(tokens: Tensor, input_pos: Tensor | None = None) -> Tensor:
    return tokens if input_pos is None else tokens + input_pos


def masked(tokens: Tensor, attention_mask: Tensor) -> Tensor:
    return tokens * attention_mask


def counters(function: Any, *, keeps_itself: bool = True, **more: Any) -> dict[str, Any]:
    given = Subject(function, {"tokens": torch.zeros(2, 7), **more}).given
    return counted(given, 3, 5, keeps_itself=keeps_itself)


@pytest.mark.parametrize("more", [{}, {"start_pos": 0}])
def test_a_counter_goes_on(more: dict[str, Any]) -> None:
    assert counters(offsets, **more) == {"start_pos": 3}


def test_a_counter_a_sample_goes_on() -> None:
    found = counters(offsets, start_pos=torch.tensor([0, 0]))
    assert found["start_pos"].tolist() == [3, 3]


def test_places_turn_a_cache_of_the_module_on() -> None:
    assert counters(places)["input_pos"].tolist() == [3, 4]
    assert not counters(places, keeps_itself=False)


@pytest.mark.parametrize(("own", "columns"), [(False, 5), (True, 2)])
def test_masks_reach_from_the_first_token_on_or_speak_of_the_step_alone(
    own: bool,  # noqa: FBT001  a parameter of the test
    columns: int,
) -> None:
    inputs = {"tokens": torch.ones(2, 7, dtype=torch.long)}
    inputs["attention_mask"] = torch.ones(2, 7, dtype=torch.long)
    subject = Subject(masked, inputs)
    stream = subject.roles.main
    assert stream is not None
    cut = step_of(subject.given, subject.roles, stream, 3, 5, own_masks=own)
    assert tuple(cut.values["tokens"].shape) == (2, 2)
    assert tuple(cut.values["attention_mask"].shape) == (2, columns)
