from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnscope.explain import Scene, explain
from attnscope.explain.kinds.inside.course import Course
from attnscope.explain.kinds.inside.evaluating import Inside, Key
from tests.explain import fill_faults, mask_faults, score_faults, weight_faults
from tests.explain.faults import Fault, alibi, causal_padded, lengths, table
from tests.explain.scenes import SIZES, UNEVEN, Mode, Sizes, Steps, causal, padding, scene, steps

FAULTS = (
    *score_faults.FAULTS,
    *mask_faults.FAULTS,
    *fill_faults.FAULTS,
    *weight_faults.FAULTS,
)

PLACES: tuple[tuple[int, Mode], ...] = ((0, "read"), (1, "unread"), (2, "opaque"), (0, "output"))
"""Sizes and how much is known of the candidate: its recipe, its stages, its context, its output."""

MORE: tuple[tuple[int, Mode], ...] = ((0, "unread"), (0, "opaque"), (1, "opaque"))
"""For faults that don't show in all of these."""


def cases() -> list[tuple[Fault, Sizes, Mode]]:
    found = []
    for fault in FAULTS:
        places = PLACES if fault.modes is None else (*PLACES, *MORE)
        for index, mode in places:
            sizes = (SIZES if fault.square else UNEVEN)[index]
            if fault.grouped and sizes.kv_heads == sizes.heads:
                sizes = SIZES[1]
            if fault.modes is None or mode in fault.modes:
                found.append((fault, sizes, mode))
    return found


@pytest.mark.parametrize(
    ("fault", "sizes", "mode"),
    [pytest.param(*case, id=f"{case[0].name}-{i}-{case[2]}") for i, case in enumerate(cases())],
)
def test_a_fault_is_named_with_its_numbers(fault: Fault, sizes: Sizes, mode: Mode) -> None:
    reference, candidate = fault.make(sizes)
    found = explain(scene(reference, candidate, mode, readable=fault.readable))
    assert found is not None
    assert found.key in {fault.key, *fault.also}, found.text
    assert all(word in found.text for word in fault.says), found.text
    assert found.remains < 1e-9


def test_every_key_has_a_fault() -> None:
    assert {fault.key for fault in FAULTS} == set(get_args(Key))


@pytest.mark.parametrize("fault", FAULTS[::4], ids=lambda fault: fault.name)
def test_what_does_not_differ_is_not_explained(fault: Fault) -> None:
    sizes = (SIZES if fault.square else UNEVEN)[0]
    reference, _ = fault.make(sizes)
    found = explain(scene(reference, reference, "unread"))
    assert found is None, found.text


@pytest.mark.parametrize("fault", FAULTS[::15], ids=lambda fault: fault.name)
@pytest.mark.parametrize("mode", ["unread", "output"])
def test_noise_is_not_explained(fault: Fault, mode: Mode) -> None:
    sizes = (SIZES if fault.square else UNEVEN)[0]
    reference, _ = fault.make(sizes)
    quiet = scene(reference, reference, mode)
    noise = 0.3 * torch.randn(quiet.actual.shape, dtype=torch.float64)
    stages = {**quiet.candidate.stages, quiet.stage: quiet.actual + noise}
    candidate = replace(quiet.candidate, stages=stages)
    found = explain(Scene(quiet.stage, candidate, quiet.reference, quiet.limit))
    assert found is None, found.text


def test_one_entry_that_is_off_is_not_explained() -> None:
    reference = causal_padded(SIZES[0])
    quiet = scene(reference, reference, "opaque")
    wrong = quiet.actual.clone()
    wrong[1, 2, 3, 0] += 1e-6
    candidate = replace(quiet.candidate, stages={**quiet.candidate.stages, "context": wrong})
    assert explain(Scene("context", candidate, quiet.reference, quiet.limit)) is None


def said(reference: Steps, candidate: Steps, mode: Mode = "read", width: int | None = None) -> str:
    found = explain(scene(reference, candidate, mode, width=width))
    assert found is not None
    return f"{found.key}: {found.text}"


@pytest.mark.parametrize("mode", ["read", "opaque"])
def test_with_one_head_both_names_of_a_scale_are_given(mode: Mode) -> None:
    right = steps(Sizes(heads=1, kv_heads=1, head_dim=8), scale=1.0)
    text = said(right, replace(right, scale=8**-0.5), mode)
    assert "1/√head_dim = 1/√d_model" in text


def test_the_width_of_the_model_counts_where_it_is_known() -> None:
    right = steps(Sizes())
    wrong = replace(right, scale=48**-0.5)
    assert "1/√d_model" in said(right, wrong, "opaque", width=48)
    assert "d_model 48" in said(right, wrong, "opaque", width=48)
    assert "d_model" not in said(right, wrong, "opaque", width=40)


def test_one_query_has_another_corner_too() -> None:
    right = steps(Sizes(queries=1, keys=7))
    wrong = replace(right, seen=causal(1, 7))
    for mode in ("read", "opaque"):
        text = said(right, wrong, mode)
        assert text.startswith("mask-corner: ")
        assert "all 7 keys" in text


def test_a_window_as_wide_as_the_sequence_is_a_missing_one() -> None:
    seen = causal(6, 6)
    right = steps(Sizes(), seen=seen & ~causal(6, 6, -3))
    assert said(right, replace(right, seen=seen), "opaque").startswith("mask-missing: ")
    wide = seen & ~causal(6, 6, -5)
    assert said(right, replace(right, seen=wide), "opaque").startswith("window: ")


def test_a_mask_after_the_softmax_is_told_from_a_missing_one_by_what_was_read() -> None:
    right = causal_padded(SIZES[0])
    plain = scene(right, replace(right, seen=None), "read")
    found = explain(plain)
    assert found is not None
    assert found.key == "mask-missing"
    attention = plain.candidate.attention
    assert attention is not None
    after = replace(attention, recipe=replace(attention.recipe, after=("mask",)))
    found = explain(replace(plain, candidate=replace(plain.candidate, attention=after)))
    assert found is not None
    assert found.key == "mask-after-softmax"


def test_a_row_shift_is_no_difference_beside_a_fault() -> None:
    right = causal_padded(SIZES[0])
    wrong = scene(right, replace(right, scale=1.0), "unread")
    shift = torch.randn(2, 4, 6, 1, dtype=torch.float64)
    stages = {**wrong.candidate.stages, "scores": wrong.actual + shift}
    found = explain(replace(wrong, candidate=replace(wrong.candidate, stages=stages)))
    assert found is not None
    assert found.key == "scale"


def test_a_finite_fill_that_hides_is_no_difference_beside_a_fault() -> None:
    right = causal_padded(SIZES[0])
    wrong = scene(right, replace(right, scale=1.0), "unread")
    filled = wrong.actual.masked_fill(wrong.actual.isneginf(), torch.finfo(torch.float32).min)
    stages = {**wrong.candidate.stages, "scores": filled}
    found = explain(replace(wrong, candidate=replace(wrong.candidate, stages=stages)))
    assert found is not None
    assert found.key == "scale"


def test_a_recipe_with_an_unknown_part_is_searched() -> None:
    right = causal_padded(SIZES[0])
    seen = scene(right, replace(right, scale=1.0), "read")
    attention = seen.candidate.attention
    assert attention is not None
    unread = replace(attention, recipe=replace(attention.recipe, unknown=("scores",)))
    found = explain(replace(seen, candidate=replace(seen.candidate, attention=unread)))
    assert found is not None
    assert found.key == "scale"


def test_stages_before_the_scores_are_left_to_others() -> None:
    right = steps(SIZES[0])
    wrong = replace(right, q=right.q + 0.1 * torch.randn_like(right.q))
    found = explain(scene(right, wrong, "read"))
    assert found is None or found.key not in get_args(Key)


def test_sides_without_a_recipe_explain_nothing_inside() -> None:
    right = steps(SIZES[0])
    whole = scene(right, replace(right, scale=1.0), "opaque")
    reference = replace(whole.reference, attention=None)
    assert explain(replace(whole, reference=reference)) is None


@st.composite
def references(draw: st.DrawFn) -> Steps:
    group = draw(st.sampled_from([1, 2]))
    kv_heads = draw(st.sampled_from([2, 3]))
    queries = draw(st.integers(4, 8))
    keys = draw(st.sampled_from([queries, queries + 3]))
    sizes = Sizes(
        draw(st.integers(2, 3)),
        group * kv_heads,
        kv_heads,
        queries,
        keys,
        draw(st.integers(3, 9)),
        4,
    )
    seen = torch.ones(1, 1, queries, keys, dtype=torch.bool)
    if draw(st.booleans()):
        seen = seen & causal(queries, keys, keys - queries)
    if draw(st.booleans()):
        seen = seen & padding(lengths(sizes), keys)
    bias = draw(st.sampled_from([None, alibi(sizes), table(sizes)]))
    cap = draw(st.sampled_from([None, 3.0]))
    seed = draw(st.integers(0, 99))
    return steps(sizes, seed, seen=seen, bias=bias, cap=cap, empty_row="zero")


@st.composite
def tiny(draw: st.DrawFn) -> tuple[Steps, Steps]:
    kv_heads, queries = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2, 3]))
    keys = draw(st.sampled_from([1, queries, queries + 2]))
    heads = kv_heads * draw(st.sampled_from([1, 3]))
    sizes = Sizes(draw(st.sampled_from([1, 2])), heads, kv_heads, queries, keys, 2, keys)
    masks = (
        None,
        causal(queries, keys),
        causal(queries, keys, -1),
        padding(lengths(sizes), keys),
        ~causal(queries, keys, -2),
    )
    some: dict[str, st.SearchStrategy[Any]] = {
        "seen": st.sampled_from(masks),
        "bias": st.sampled_from([None, alibi(sizes), table(sizes)[0], table(sizes)[..., :1]]),
        "sinks": st.sampled_from([None, torch.ones(1, heads, 1, 1, dtype=torch.float64)]),
        "scale": st.sampled_from([1.0, 0.3, torch.ones(heads, 1, 1, dtype=torch.float64)]),
        "cap": st.sampled_from([None, 2.0]),
    }
    sides: list[dict[str, Any]] = [
        {name: draw(values) for name, values in some.items()} for _ in range(2)
    ]
    return steps(sizes, **sides[0]), steps(sizes, **sides[1])


@settings(max_examples=25, deadline=None, derandomize=True)
@given(tiny(), st.sampled_from(["read", "unread", "opaque", "output"]))
def test_the_smallest_attentions_are_compared_too(case: tuple[Steps, Steps], mode: Mode) -> None:
    found = explain(scene(*case, mode))
    assert found is None or found.remains < 1e-6


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Steps, Steps, str]:
    right = draw(references())
    assert right.seen is not None
    wrong: dict[str, Steps] = {
        "scale": replace(right, scale=right.scale * draw(st.sampled_from([0.37, 1.02, 2.9]))),
        "softcap": replace(right, cap=None if right.cap else 2.2),
        "mask-missing": replace(right, seen=None),
        "mask-inverted": replace(right, seen=~right.seen),
        "weights-factor": replace(right, finish=lambda weights: weights * 1.31),
    }
    if right.bias is not None:
        wrong["bias-missing"] = replace(right, bias=None)
    key = draw(st.sampled_from(sorted(wrong)))
    return right, wrong[key], key


@settings(max_examples=30, deadline=None, derandomize=True)
@given(pairs(), st.sampled_from(["read", "unread", "opaque"]))
def test_no_other_key_is_given(case: tuple[Steps, Steps, str], mode: Mode) -> None:
    right, wrong, key = case
    ours, theirs = wrong.stages()["context"], right.stages()["context"]
    assume(not torch.allclose(ours, theirs, atol=1e-6, equal_nan=True))
    assume(not bool(ours.isnan().all()))
    readable = key != "weights-factor"
    found = explain(scene(right, wrong, mode, readable=readable))
    assert found is not None
    assert found.key == key, found.text


@pytest.mark.parametrize("right", [steps(SIZES[0]), causal_padded(SIZES[0])], ids=["all", "masked"])
def test_a_search_without_result_stays_small(right: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    plain = Inside.at

    def at(inside: Inside, course: Course) -> Tensor:
        counted.append(course)
        return plain(inside, course)

    monkeypatch.setattr(Inside, "at", at)
    steep = torch.arange(1, SIZES[0].keys + 1)
    wrong = replace(right, score=lambda own, raw: own.hide(raw.sin() + steep.sqrt()))
    assert explain(scene(right, wrong, "opaque")) is None
    assert 20 < len(counted) <= MOST


MOST = 150
"""Evaluations of a stage that an opaque context may take."""


@pytest.mark.parametrize(
    "name",
    [
        "fill-of-a-small-number",
        "scores-times-mask",
        "inverted-and-filled",
        "bias-of-heads-reversed",
    ],
)
def test_no_second_name_that_says_nothing_new(name: str) -> None:
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    found = explain(scene(*fault.make(SIZES[0]), "unread"))
    assert found is not None
    assert "same as" not in found.text
