"""Twelve faults of attention that comparing whole tensors misses: found, placed and named.

Norms, means and cosines miss half of them; element-wise limits see them and call rounding a fault
too, so two harmless partners belong to the table. Plain functions, modules, deep stacks and half
precision; then faults that only a backward pass shows.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnscope
from tests.ports.table import (
    FUSED,
    HEADS,
    KINDS,
    LENGTH,
    LOST,
    RIGHT,
    STOPPED,
    Kind,
    Stack,
    core,
    in_bfloat16,
    stack,
    states,
    tensors,
)

DEPTH, AT = 7, 4

every_fault = pytest.mark.parametrize("name", KINDS)
every_stopped = pytest.mark.parametrize("name", STOPPED)


def check(kind: Kind, result: Any, call: int) -> None:
    """The difference is where the fault is, under its name."""
    assert not result.equal
    first = result.first_difference
    assert first is not None
    assert first.stage in kind.stages
    assert first.stage == "model" or first.call == call
    assert first.own_error > 0
    if kind.key is not None:
        assert first.explanation is not None
        assert first.explanation.key == kind.key
        assert kind.says in first.explanation.text


def verified(candidate: Any, reference: Any, *inputs: Tensor) -> Any:
    return attnscope.verify(candidate, reference, inputs=inputs)


@every_fault
def test_found_in_a_plain_function(name: str) -> None:
    result = verified(core(KINDS[name]), core(), *tensors())
    check(KINDS[name], result, call=0)


@every_fault
def test_found_in_a_module(name: str) -> None:
    check(KINDS[name], verified(stack(KINDS[name]), stack(), states()), call=0)


@every_fault
def test_found_in_one_layer_of_a_deep_stack(name: str) -> None:
    candidate = stack(KINDS[name], at=AT, depth=DEPTH)
    check(KINDS[name], verified(candidate, stack(depth=DEPTH), states()), call=AT)


@every_fault
def test_found_in_half_precision(name: str) -> None:
    candidate = stack(KINDS[name], at=1, depth=3).bfloat16()
    result = verified(candidate, stack(depth=3).bfloat16(), states().bfloat16())
    check(KINDS[name], result, call=1)


@every_stopped
def test_found_by_gradients_of_a_plain_function(name: str) -> None:
    check(STOPPED[name], verified(core(STOPPED[name]), core(), *tensors()), call=0)


@every_stopped
def test_found_by_gradients_in_one_layer_of_a_stack(name: str) -> None:
    candidate = stack(STOPPED[name], at=2, depth=4)
    check(STOPPED[name], verified(candidate, stack(depth=4), states()), call=2)


def test_a_lost_token_is_named_by_its_place() -> None:
    result = verified(core(KINDS["one token lost"]), core(), *tensors())
    assert result.first_difference is not None
    assert LOST in result.first_difference.index


def test_a_padded_key_that_is_seen_is_named_by_its_place() -> None:
    result = verified(core(KINDS["one padded key seen"]), core(), *tensors())
    assert result.first_difference is not None
    sample, head, query, key = result.first_difference.index
    assert sample == 1
    assert 0 <= head < HEADS
    assert query >= key == LENGTH - 2


@pytest.mark.parametrize("seed", range(2))
def test_the_fused_kernel_is_no_difference(seed: int) -> None:
    assert verified(core(FUSED), core(), *tensors(seed)).equal


@pytest.mark.parametrize("seed", range(2))
def test_the_same_in_bfloat16_is_no_difference(seed: int) -> None:
    assert verified(in_bfloat16, core(), *tensors(seed)).equal


@pytest.mark.parametrize("seed", range(2))
def test_the_fused_kernel_in_a_deep_stack_is_no_difference(seed: int) -> None:
    candidate = Stack(*([FUSED] * DEPTH)).eval()
    assert verified(candidate, stack(depth=DEPTH), states(seed)).equal


@pytest.mark.parametrize("seed", range(2))
def test_the_fused_kernel_in_half_precision_is_no_difference(seed: int) -> None:
    candidate = Stack(FUSED, FUSED, FUSED).eval().bfloat16()
    reference = Stack(RIGHT, RIGHT, RIGHT).eval().bfloat16()
    assert verified(candidate, reference, states(seed).bfloat16()).equal


def test_a_stack_that_is_the_same_is_compared_in_every_call() -> None:
    result = verified(stack(depth=3), stack(depth=3), states())
    assert result.equal
    assert {stage.call for stage in result.stages if stage.call is not None} >= {0, 1, 2}
    assert result.compared > 0


def test_the_faults_differ_from_the_right_one_as_far_as_they_should() -> None:
    right = core()(*tensors())
    for name, kind in KINDS.items():
        torch.manual_seed(0)
        assert (core(kind)(*tensors()) - right).abs().max() > 1e-3, name
    for name, kind in STOPPED.items():
        assert (core(kind)(*tensors()) - right).abs().max() < 1e-6, name
