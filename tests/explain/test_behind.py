"""A function whose result is its context, laid out: what is done to it behind the attention."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnscope.calls.held import Held
from attnscope.calls.program import Operation, Program, Value
from attnscope.explain import Explanation, Part, Scene, Sight, explain

Q, K, V = (torch.randn(2, 4, 6, 8, dtype=torch.float64).cumsum(-1) for _ in range(3))
CONTEXT = scaled_dot_product_attention(Q, K, V)


def merged(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


Layout = Callable[[Tensor], Tensor]


def explained(
    change: Layout, *, merges: bool, extra: Operation | None = None
) -> Explanation | None:
    inputs = {i: Held(x) for i, x in enumerate((Q, K, V))}
    values = (Value(0), Value(1), Value(2))
    operations = [
        Operation(
            "scaled_dot_product_attention",
            scaled_dot_product_attention,
            values,
            {},
            defines=(3,),
            needs=(0, 1, 2),
        )
    ]
    wanted = 3
    if merges:
        operations.append(Operation("flatten", merged, (Value(3),), {}, defines=(4,), needs=(3,)))
        wanted = 4
    if extra is not None:
        operations.append(extra)
        wanted = extra.defines[0]
    part = Part(Program(inputs, tuple(operations)), wanted, {}, lambda value: value, {})
    expected = part.run()
    actual = change(CONTEXT)
    limit = torch.full_like(expected[..., :1], 1e-9)
    reference = Sight({"model": expected}, parts={"model": part})
    return explain(Scene("model", Sight({"model": actual}), reference, limit))


@pytest.mark.parametrize("lay", [torch.clone, merged])
def test_a_factor_is_one_of_the_weights(lay: Layout) -> None:
    found = explained(lambda x: lay(0.9 * x), merges=lay is merged)
    assert found is not None
    assert found.key == "weights-factor"
    assert "multiplied by 0.9 where" in found.text
    assert "same as" not in found.text


@pytest.mark.parametrize("lay", [torch.clone, merged])
def test_factors_of_the_heads_are_listed(lay: Layout) -> None:
    by_head = torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=torch.float64).view(4, 1, 1)
    found = explained(lambda x: lay(by_head * x), merges=lay is merged)
    assert found is not None
    assert found.key == "weights-factor"
    assert "1, 2, 0.5, 1, by head" in found.text


@pytest.mark.parametrize("lay", [torch.clone, merged])
def test_another_order_of_heads_is_read(lay: Layout) -> None:
    found = explained(lambda x: lay(x[:, [2, 0, 1, 3]]), merges=lay is merged)
    assert found is not None
    assert found.key == "heads-permuted"
    assert "(2, 0, 1, 3)" in found.text


def test_heads_merged_by_a_view_are_named() -> None:
    found = explained(lambda x: x.reshape(2, 6, 32), merges=True)
    assert found is not None
    assert found.key == "merge-by-view"


def test_what_is_unlike_the_context_is_not_explained() -> None:
    assert explained(lambda x: x + 0.1 * torch.randn_like(x), merges=False) is None
    assert explained(lambda x: merged(x.flip(2)), merges=True) is None


def test_a_factor_of_a_sum_is_not_one_of_the_weights() -> None:
    def added(x: Tensor) -> Tensor:
        return x + Q

    extra = Operation("add", added, (Value(3),), {}, defines=(5,), needs=(3,))
    found = explained(lambda x: 0.9 * (x + Q), merges=False, extra=extra)
    assert found is None or found.key != "weights-factor"
