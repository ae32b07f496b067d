from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch

from attnscope.explain import explain
from attnscope.explain.kinds.around.table import KEYS_AROUND
from tests.explain.around_faults import FAULTS, Fault
from tests.explain.between_faults import BETWEEN_FAULTS
from tests.explain.llamas import (
    Cross,
    Encoder,
    Gpt,
    HandEncoder,
    HandWritten,
    Llama,
    Qwen,
    with_faults,
)
from tests.explain.observed import Observed, observe, scene_of

ALL = FAULTS + BETWEEN_FAULTS


@cache
def hand_written(style: str) -> HandWritten:
    torch.manual_seed(0)
    made: dict[str, Callable[[], HandWritten]] = {
        "llama": Llama,
        "qwen": Qwen,
        "gpt": Gpt,
        "encoder": HandEncoder,
        "cross": Cross,
    }
    return made[style]()


@cache
def references(style: str) -> tuple[Observed, ...]:
    """The sound module, and where there is one, the same model in somebody else's code."""
    own = hand_written(style)
    found = [observe(own, **own.inputs)]
    if style == "encoder":
        found.append(observe(Encoder(), length_first=True, **own.inputs))
    elif style != "cross":
        found.append(observe(own.own, **own.inputs))
    return tuple(found)


@cache
def faulty(index: int) -> Observed:
    fault = ALL[index]
    module = with_faults(hand_written(fault.style), **fault.methods)
    for name, value in fault.values.items():
        setattr(module, name, value)
    torch.manual_seed(1)
    return observe(module, **module.inputs)


def cases() -> list[object]:
    """Each fault against one of the references, so that every key meets both."""
    return [
        pytest.param(
            index,
            index % 2 if fault.style != "cross" else 0,
            id=f"{fault.key}-{fault.name}-{fault.style}-{fault.stage}",
        )
        for index, fault in enumerate(ALL)
    ]


@pytest.mark.parametrize(("index", "by"), cases())
def test_a_fault_is_named_with_its_numbers(index: int, by: int) -> None:
    fault: Fault = ALL[index]
    found = explain(scene_of(faulty(index), references(fault.style)[by], fault.stage, fault.call))
    assert found is not None
    assert found.key == fault.key, found.text
    assert all(word in found.text for word in fault.says), found.text
    assert found.remains < 2e-6


@pytest.mark.parametrize("key", ["rotary-base", "k-for-v", "norm-place"])
def test_rows_that_do_not_count_leave_the_name(key: str) -> None:
    index = next(at for at, f in enumerate(ALL) if f.key == key and f.stage in {"q", "k", "v"})
    fault = ALL[index]
    scene = scene_of(faulty(index), references(fault.style)[0], fault.stage)
    limit = scene.limit.clone()
    limit[1, :, -3:] = torch.inf
    found = explain(replace(scene, limit=limit))
    assert found is not None
    assert found.key == key


def test_every_key_has_two_faults_or_more() -> None:
    counts = Counter(fault.key for fault in ALL)
    assert set(counts) == set(KEYS_AROUND)
    assert min(counts.values()) >= 2


STAGES = ("input", "q", "k", "v", "output", "model")


@pytest.mark.parametrize("style", ["llama", "qwen", "gpt", "encoder"])
def test_the_same_model_in_other_code_does_not_differ(style: str) -> None:
    own, other = references(style)
    for stage in STAGES:
        scene = scene_of(own, other, stage)
        assert scene.gap(scene.actual, mends=True) is not None, stage


@cache
def retrained(style: str) -> Observed:
    """The same code with other weights: a difference that no change of the code explains."""
    module = with_faults(hand_written(style))
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1 + 0.01 * torch.randn(parameter.shape, generator=generator))
    return observe(module, **module.inputs)


@pytest.mark.parametrize("style", ["llama", "qwen", "gpt", "encoder"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_difference_without_a_name_gets_none(style: str, stage: str) -> None:
    scene = scene_of(retrained(style), references(style)[1], stage)
    assert scene.gap(scene.actual, mends=True) is None
    assert explain(scene) is None


@pytest.mark.parametrize(("eps", "shows"), [(1.001e-6, False), (2e-6, True)])
def test_an_epsilon_is_named_only_beyond_the_limit(eps: float, *, shows: bool) -> None:
    module = with_faults(hand_written("llama"))
    module.eps = eps  # type: ignore[assignment]
    scene = scene_of(observe(module, **module.inputs), references("llama")[0], "input")
    differs = scene.gap(scene.actual, mends=True) is None
    assert differs is shows
    if shows:
        found = explain(scene)
        assert found is not None
        assert "2e-06" in found.text


def test_rotary_on_a_quarter_of_one_pair_is_the_least_that_is_read() -> None:
    module = with_faults(hand_written("llama"))
    module.share = 0.25  # type: ignore[assignment]
    scene = scene_of(observe(module, **module.inputs), references("llama")[0], "q")
    found = explain(scene)
    assert found is not None
    assert found.key == "rotary-share"
    assert "2 of 8" in found.text
