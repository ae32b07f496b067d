"""Faults inside the attention that show in q, k or v, or as another order of the context."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.recipe import Recipe
from attnscope.explain import Explanation, Scene, explain
from tests.explain.scenes import SIZES, limit, scene, steps


def of_heads(name: str, order: list[int]) -> Explanation | None:
    """Explain k or v with one head for each query head, in which the heads are `order`."""
    right = steps(SIZES[1])  # six heads, three kv heads
    both = scene(right, right, "unread")
    expected = both.reference.stages[name][:, right.k_met]
    return explain(_at(both, name, expected[:, order], expected))


def _at(scene: Scene, name: str, actual: Tensor, expected: Tensor) -> Scene:
    candidate = replace(scene.candidate, stages={name: actual})
    stages = {**scene.reference.stages, name: expected}
    reference = replace(scene.reference, stages=stages)
    return Scene(name, candidate, reference, limit(expected))


@pytest.mark.parametrize("name", ["k", "v"])
def test_the_first_kv_head_for_all_is_named(name: str) -> None:
    found = of_heads(name, [0] * 6)
    assert found is not None
    assert found.key == "kv-heads-first"
    assert "[0, 0, 0, 0, 0, 0] in " + name in found.text
    assert "[0, 0, 1, 1, 2, 2]" in found.text


def test_tiled_kv_heads_are_named() -> None:
    found = of_heads("k", [0, 2, 4, 0, 2, 4])
    assert found is not None
    assert found.key == "kv-heads-tiled"


def test_kv_heads_as_they_are_need_no_explanation() -> None:
    right = steps(SIZES[1])
    both = scene(right, right, "unread")
    expected = both.reference.stages["k"][:, right.k_met]
    noise = expected + 0.1 * torch.randn_like(expected)
    assert explain(_at(both, "k", noise, expected)) is None


def test_heads_of_an_opaque_context_in_another_order_are_read() -> None:
    right = steps(SIZES[2])
    both = scene(right, right, "opaque")
    order = [1, 0, 2, 3, 5, 4, 7, 6]
    expected = both.expected
    found = explain(_at(both, "context", expected[:, order], expected))
    assert found is not None
    assert found.key == "heads-permuted"
    assert "(1, 0, 2, 3, 5, 4, 7, 6)" in found.text


class Handed:
    """What a call says of itself, as far as it is asked here."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe


def turned(axis: str) -> Explanation | None:
    """Explain q that is the reference's k, in a call whose softmax runs over `axis`."""
    right = steps(SIZES[2])
    both = scene(right, right, "unread")
    k = both.reference.stages["k"]
    at = _at(both, "q", k, both.reference.stages["q"])
    call = cast("Call", Handed(replace(right.recipe(), normaliser_axis=axis)))
    return explain(replace(at, candidate=replace(at.candidate, call=call)))


def test_transposed_weights_are_told_from_exchanged_q_and_k() -> None:
    found = turned("queries")
    assert found is not None
    assert found.key == "weights-transposed"
    other = turned("keys")
    assert other is None or other.key != "weights-transposed"
