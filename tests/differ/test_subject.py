"""Inputs made for one side are fitted to the signature of the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attnscope import reference
from attnscope.differ.sides.subject import Subject, bind, takes_qkv
from attnscope.errors import InputError

IDS, MASK = torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3)


class Module(nn.Module):
    def __init__(self, forward: Any) -> None:
        super().__init__()
        self.forward = forward


def only_x(x: Tensor) -> Tensor:
    return x


def tokens_and_mask(tokens: Tensor, mask: Tensor | None = None) -> Tensor:
    del mask
    return tokens


def everything(**kwargs: Tensor) -> Tensor:
    return kwargs["input_ids"]


def needs_more(input_ids: Tensor, other: Tensor, another: Tensor) -> Tensor:
    return input_ids + other + another


@pytest.mark.parametrize(
    ("forward", "named", "left"),
    [
        (only_x, {"x": IDS}, ["attention_mask"]),
        (tokens_and_mask, {"tokens": IDS, "mask": MASK}, []),
        (everything, {"input_ids": IDS, "attention_mask": MASK}, []),
    ],
)
def test_arguments_go_by_name_or_by_meaning(
    forward: Any, named: dict[str, Tensor], left: list[str]
) -> None:
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    args, kwargs, dropped = bind(Subject("mine", Module(forward)), inputs, "testing")
    assert (args, dropped) == ((), left)
    assert set(kwargs) == set(named)
    assert all(kwargs[name] is value for name, value in named.items())


def test_a_missing_argument_is_told_with_what_there_is() -> None:
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    with pytest.raises(InputError, match=r"needs another.*inputs are input_ids, attention_mask"):
        bind(Subject("mine", Module(needs_more)), inputs, "testing")


def test_repeated_positional_tensors_are_given_once_where_fewer_are_taken() -> None:
    args, _, _ = bind(Subject("mine", Module(only_x)), (IDS, IDS, IDS), "testing")
    assert len(args) == 1


def by_names(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return query @ key.mT @ value


def by_other_names(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a @ b.mT @ c


def test_plain_functions_are_told_by_their_first_three_parameters() -> None:
    assert takes_qkv(by_names)
    assert not takes_qkv(by_other_names)
    assert takes_qkv(nn.functional.scaled_dot_product_attention)
    assert not Subject("module", nn.MultiheadAttention(4, 1)).is_plain


def in_numpy(q: Any, k: Any, v: Any) -> Any:
    return np.einsum("bhqk,bhkd->bhqd", np.exp(q @ np.swapaxes(k, -1, -2)), v)


def with_a_helper(q: Any, k: Any, v: Any) -> Any:
    return in_numpy(q, k, v)


def of_tensors_with_a_root_from_numpy(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / np.sqrt(q.shape[-1])).softmax(-1) @ v


def calling_itself(q: Any, k: Any, v: Any) -> Any:
    return calling_itself(q, k, v) if q is None else np.asarray(q)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (in_numpy, True),
        (with_a_helper, True),
        (calling_itself, True),
        (reference.attention, True),
        (by_names, False),
        (of_tensors_with_a_root_from_numpy, False),
    ],
)
def test_numpy_functions_get_arrays_and_their_results_become_tensors(
    function: Any, *, arrays: bool
) -> None:
    subject = Subject("mine", function)
    assert subject.wants_arrays is arrays
    q = torch.randn(1, 2, 3, 4)
    assert isinstance(subject.call((q, q, q), {}), Tensor)
