"""The same faults with a reference that can't be looked into."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from attnscope.explain import explain
from tests.explain.faults import alibi, causal_padded
from tests.explain.scenes import SIZES, Sizes, Steps, causal, scene, steps

SINKS = torch.tensor([0.5, -0.3, 1.0, 0.1], dtype=torch.float64)[None, :, None, None]


def turned(reference: Steps, candidate: Steps) -> tuple[str, str] | None:
    """Explain the context of a reference in NumPy against a candidate whose recipe is known."""
    both = scene(candidate, reference, "opaque")
    turned = replace(both, candidate=both.reference, reference=both.candidate)
    found = explain(turned)
    return None if found is None else (found.key, found.text)


CASES = [
    ("sinks", "in the reference: sinks of 0.5, -0.3, 1, 0.1", {"sinks": SINKS}, {}),
    ("sinks", "where the candidate has sinks", {}, {"sinks": SINKS}),
    ("scale", "1/√head_dim where the candidate has 1 (not scaled)", {}, {"scale": 1.0}),
    ("mask-missing", "in the reference: a causal mask", {"seen": causal(6, 6)}, {}),
    ("mask-extra", "the causal mask of the candidate is missing", {}, {"seen": causal(6, 6)}),
    ("bias-missing", "ALiBi", {"bias": alibi(Sizes())}, {}),
    ("bias-extra", "where the candidate adds one", {}, {"bias": alibi(Sizes())}),
]


@pytest.mark.parametrize(("key", "said", "reference", "candidate"), CASES)
def test_the_candidate_is_changed_until_it_is_the_reference(
    key: str, said: str, reference: dict[str, Any], candidate: dict[str, Any]
) -> None:
    found = turned(steps(Sizes(), **reference), steps(Sizes(), **candidate))
    assert found is not None
    assert found[0] == key, found
    assert said in found[1]


def test_what_does_not_differ_is_not_explained_from_there_either() -> None:
    right = causal_padded(SIZES[0])
    assert turned(right, right) is None


def test_with_both_recipes_it_is_the_reference_that_is_changed() -> None:
    right = steps(Sizes())
    found = explain(scene(right, replace(right, scale=1.0), "read"))
    assert found is not None
    assert not found.text.startswith("in the reference")
