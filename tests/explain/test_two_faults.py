from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.explain import explain
from tests.explain.faults import alibi, causal_padded, lengths, table
from tests.explain.scenes import SIZES, Mode, Sizes, Steps, causal, padding, scene, steps


def pair(name: str, s: Sizes) -> tuple[Steps, Steps, set[str]]:
    """Return a reference, a candidate with two faults, and both of their keys."""
    joined = (s.heads * s.head_dim) ** -0.5
    tiled = [head % s.kv_heads for head in range(s.heads)]
    changes: dict[str, Any]
    if name == "scale-and-causal":
        right = steps(s, seen=causal(s.queries, s.keys))
        changes, keys = {"scale": joined, "seen": None}, {"scale", "mask-missing"}
    elif name == "scale-and-kv-heads":
        right = causal_padded(s)
        changes = {"scale": 1.0, "k_met": tiled, "v_met": tiled}
        keys = {"scale", "kv-heads-tiled"}
    elif name == "cap-and-padding":
        right = causal_padded(s, cap=5.0)
        changes = {"cap": None, "seen": causal(s.queries, s.keys)}
        keys = {"softcap", "mask-missing"}
    elif name == "sinks-and-bias":
        sinks = torch.linspace(-1, 1.5, s.heads, dtype=torch.float64)[None, :, None, None]
        right = steps(s, sinks=sinks, bias=table(s), seen=causal(s.queries, s.keys))
        changes, keys = {"sinks": None, "bias": -table(s)}, {"sinks", "bias-sign"}
    elif name == "bias-and-scale":
        right = steps(s, bias=alibi(s), seen=causal(s.queries, s.keys))
        changes, keys = {"bias": None, "scale": 1 / s.head_dim}, {"bias-missing", "scale"}
    else:
        right = steps(s, seen=padding(lengths(s), s.keys))
        seen = padding(lengths(s), s.keys)

        def weigh(own: Steps, scores: Tensor) -> Tensor:
            return own.weights(scores).masked_fill(~seen, 0.0).mT

        changes = {"scale": 1.0, "weigh": weigh}
        keys = {"scale", "weights-transposed"}
    return right, replace(right, **changes), keys


NAMES = (
    "scale-and-causal",
    "scale-and-kv-heads",
    "cap-and-padding",
    "sinks-and-bias",
    "bias-and-scale",
    "scale-and-transpose",
)


@pytest.mark.parametrize(
    ("name", "mode"),
    [*((name, "opaque") for name in NAMES), (NAMES[0], "output"), (NAMES[3], "output")],
)
def test_two_faults_are_named_together(name: str, mode: Mode) -> None:
    reference, candidate, keys = pair(name, SIZES[0])
    found = explain(scene(reference, candidate, mode))
    assert found is not None
    assert found.key in keys, found.text
    assert found.text.startswith("two faults: ")
    assert found.remains < 1e-9


@pytest.mark.parametrize("name", ["cap-and-padding", "scale-and-causal", "bias-and-scale"])
def test_two_faults_of_a_recipe_that_was_read_are_named_together(name: str) -> None:
    reference, candidate, keys = pair(name, SIZES[1])
    found = explain(scene(reference, candidate, "read"))
    assert found is not None
    assert found.key in keys, found.text
    assert found.text.startswith("two faults: ")


def test_a_fault_is_found_beside_one_that_does_not_show() -> None:
    reference = steps(SIZES[0], seen=causal(6, 6))
    candidate = replace(reference, scale=1.0, cap=1e9)  # a cap far beyond all scores
    found = explain(scene(reference, candidate, "opaque"))
    assert found is not None
    assert found.key == "scale"
    assert "two faults" not in found.text
