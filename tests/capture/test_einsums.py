"""An einsum of many operands becomes products of two that give the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnscope.calls.tolerance import largest_relative, replay
from attnscope.capture.einsums import parts_of
from attnscope.capture.functions import kind_of
from attnscope.capture.step import Step

SIZES = dict(zip("bhtsdecn", (2, 3, 5, 7, 4, 6, 11, 1), strict=True))
EQUATIONS = [
    "bhts,bhse,hec->btc",
    "hec,bhse,bhts->btc",
    "bhse,bhts,hec->btc",
    "bhts,bs,bhse,hec->btc",
    "bhts,bhse,h->bthe",
    "h,bthd,bshd->bhts",
    "bthd,bshd,bs->bhts",
    "bhtd,de,bhse->bhts",
    "bhtd,bhse,de->bhts",
    "bhts,bhse,",
    "bhts,bhse,ec",
    "...ts,...se,ec->...tc",
    "h...ts,h...se,ec->...htc",
    "bt,bs,h->bhts",
    "nhts,bhse,hec->btc",
]


def operands_of(equation: str) -> list[Tensor]:
    """Random operands, an axis of its own for an ellipsis."""
    generator = torch.Generator().manual_seed(3)
    texts = equation.replace("...", "b").partition("->")[0].split(",")
    shapes = [[SIZES[letter] for letter in text] for text in texts]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def step_of(equation: str, operands: list[Tensor]) -> Step:
    """The operation as a recorder sees it."""
    function = torch.functional.einsum
    step = Step("einsum", function, kind_of(function), (equation, *operands), {}, operands)
    step.output = function(equation, *operands)
    return step


@pytest.mark.parametrize("weights", [None, 0, 1, 2])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_parts_give_what_the_whole_gives(equation: str, weights: int | None) -> None:
    operands = operands_of(equation)
    step = step_of(equation, operands)
    chosen = operands[weights] if weights is not None else None
    parts = parts_of(step, lambda tensor: tensor is chosen, lambda _: False)
    made: dict[int, Tensor] = {}
    for part in parts:
        args = [made.get(id(arg), arg) if isinstance(arg, Tensor) else arg for arg in part.args]
        value = part.function(*args)
        assert value.shape == part.output.shape
        made[id(part.output)] = value
    several = sum(each.dim() > 0 for each in operands) > 2
    assert bool(parts) == several
    if parts:
        assert parts[-1].output is step.output
        error = largest_relative(made[id(step.output)], step.output)
        assert error <= replay(torch.float64, SIZES["s"], SIZES["d"])


@pytest.mark.parametrize("equation", ["bhts,bhse,hec->btc", "hec,bhse,bhts->btc"])
def test_weights_meet_values_first(equation: str) -> None:
    operands = operands_of(equation)
    weights = max(operands, key=lambda tensor: tensor.shape[-1] == SIZES["s"])
    first = parts_of(step_of(equation, operands), lambda t: t is weights, lambda _: False)[0]
    assert first.args[0] == "bhts,bhse->bhte"
    assert first.stands_in


def test_projections_of_one_activation_are_left_whole() -> None:
    operands = operands_of("bts,se,ec->btc")
    step = step_of("bts,se,ec->btc", operands)
    assert not parts_of(step, lambda _: False, lambda tensor: tensor is not operands[0])


def test_a_diagonal_is_left_whole() -> None:
    operands = [torch.randn(3, 3), torch.randn(3, 4), torch.randn(4, 5)]
    step = step_of("ii,ij,jk->ik", operands)
    assert not parts_of(step, lambda _: False, lambda _: False)


def test_what_stands_in_takes_no_memory() -> None:
    operands = operands_of("bhts,bhse,hec->btc")
    step = step_of("bhts,bhse,hec->btc", operands)
    standing = [p for p in parts_of(step, lambda _: False, lambda _: False) if p.stands_in]
    assert standing
    assert all(part.output.untyped_storage().nbytes() <= 8 for part in standing)
