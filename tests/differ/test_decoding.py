"""Cached decoding against the full pass: faults of a cache are found, and sound caches agree."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.differ.cases.decoding import decoding_cases
from attnscope.differ.cases.matrix import cases
from attnscope.differ.cases.trial import Trial
from attnscope.differ.cases.varying import arrange
from attnscope.differ.comparison import Comparison, Options
from attnscope.differ.sides.caches import emptied
from attnscope.differ.sides.subject import Subject
from attnscope.nn import CausalLanguageModel, Design
from attnscope.targets.architectures import build
from tests.differ import small_models as small

STEPS, CHUNKS = "cached decoding, one token a step", "cached decoding, in two chunks"
BY_NAME, BY_SELF = {"cache": "past"}, {"cache": "self"}


def decoded(candidate: Any, reference: Any, inputs: Any, **expect: Any) -> dict[str, Trial]:
    sides = Subject("mine", candidate), Subject("theirs", reference)
    comparison = Comparison(*sides, inputs, Options(expect, gradients=False))
    arranged = arrange(inputs, sides[1], expect)
    return {trial.case.name: trial for trial in decoding_cases(comparison, arranged)}


def verdicts(made: dict[str, Trial]) -> dict[str, bool | None]:
    return {name: trial.case.equal for name, trial in made.items()}


def masked(*, left: int = 0) -> dict[str, Tensor]:
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, :left] = 0
    return {"ids": small.ids(), "attention_mask": mask}


@pytest.mark.parametrize("kind", [small.WithCache, small.WithTuple])
@pytest.mark.parametrize("left", [0, 3])
def test_a_sound_cache_agrees_with_a_full_pass(kind: type[small.Model], left: int) -> None:
    made = decoded(kind(), small.Plain(), masked(left=left), **BY_NAME)
    assert verdicts(made) == {STEPS: True, CHUNKS: True}


def test_a_cache_that_the_module_keeps_is_emptied_by_its_reset() -> None:
    model = small.KeepingCache()
    model(small.ids())  # something is left in it
    made = decoded(model, small.Plain(), (small.ids(),), **BY_SELF)
    assert verdicts(made) == {STEPS: True, CHUNKS: True}
    assert model.past is not None


@pytest.mark.parametrize(
    ("parts", "steps", "chunks"),
    [
        ({"places": small.started_anew}, "step 2 of 7", "step 2 of 2"),
        ({"places": small.one_late}, "step 2 of 7", "step 2 of 2"),
        ({"seen": small.corner}, "step 2 of 7", "step 2 of 2"),
        ({"grow": small.late}, "step 2 of 7", "step 2 of 2"),
        ({"seen": small.one_by_one}, "", "step 2 of 2"),
    ],
)
@pytest.mark.parametrize("kind", [small.WithCache, small.KeepingCache])
def test_a_fault_of_a_cache_is_found_at_its_step(
    kind: type[small.Model], parts: dict[str, Any], steps: str, chunks: str
) -> None:
    expect = BY_NAME if kind is small.WithCache else BY_SELF
    made = decoded(kind(**parts), small.Plain(), (small.ids(),), **expect)
    for name, said in ((STEPS, steps), (CHUNKS, chunks)):
        trial = made[name]
        assert trial.case.equal is not bool(said)
        assert trial.case.note.startswith(said)
        assert (trial.first is not None) is bool(said)


def test_a_fault_of_later_steps_is_placed_there() -> None:
    made = decoded(small.WithCache(places=forgetting), small.Plain(), (small.ids(),), **BY_NAME)
    assert made[STEPS].case.note.startswith("step 5 of 7")
    first = made[STEPS].first
    assert first is not None
    assert first.index[1] == 4
    assert first.values is not None
    assert first.values[0] != first.values[1]


def forgetting(start: int, length: int) -> Tensor:
    return torch.arange(start, start + length) % 4 if start else torch.arange(length)


def test_a_cache_that_is_not_given_out_is_said() -> None:
    class Mute(small.WithCache):
        def forward(self, ids: Tensor, past: Any = None) -> Tensor:  # type: ignore[override]
            return super().forward(ids, None, past).logits

    made = decoded(Mute(), small.Plain(), (small.ids(),), **BY_NAME)
    assert made[STEPS].case.equal is None
    assert "the output has no past" in made[STEPS].case.note


def test_a_candidate_without_a_cache_has_no_case_unless_one_is_declared() -> None:
    assert decoded(small.Plain(), small.Plain(), (small.ids(),)) == {}
    (only,) = decoded(small.Plain(), small.Plain(), (small.ids(),), **BY_NAME).values()
    assert only.case.equal is None
    assert only.case.note == "mine takes no such cache"


def test_a_reference_that_sees_later_tokens_is_not_decoded() -> None:
    sides = small.WithCache(seen=small.all_seen), small.Plain(seen=small.all_seen)
    (only,) = decoded(*sides, (small.ids(),), **BY_NAME).values()
    assert only.case.note == "theirs lets tokens see later ones"


def test_a_candidate_is_not_blamed_for_what_the_reference_does_too() -> None:
    ours, theirs = (small.WithCache(places=small.one_late) for _ in range(2))
    made = decoded(ours, theirs, (small.ids(),), **BY_NAME)
    assert verdicts(made) == {STEPS: None, CHUNKS: None}
    assert "so does the cache of theirs" in made[STEPS].case.note


def test_a_reference_that_takes_no_shorter_text_is_not_decoded() -> None:
    class Whole(small.Plain):
        def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
            if ids.shape[1] != 7:
                message = "the text is cut"
                raise ValueError(message)
            return super().forward(ids, attention_mask)

    (only,) = decoded(small.WithCache(), Whole(), (small.ids(),), **BY_NAME).values()
    assert only.case.equal is None
    assert "theirs raised ValueError: the text is cut" in only.case.note


@pytest.mark.parametrize("name", ["gpt2", "t5", "mixtral"])
def test_a_library_model_is_decoded_without_a_declaration(name: str) -> None:
    built = build(name)
    made = decoded(copy.deepcopy(built.model), built.model, built.inputs)
    assert verdicts(made) == {STEPS: True, CHUNKS: True}


def test_a_library_model_with_a_broken_cache_is_found() -> None:
    built = build("llama")
    broken: Any = copy.deepcopy(built.model)
    original = broken.model.rotary_emb.forward

    def started_anew(x: Tensor, position_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
        return original(x, position_ids - position_ids[:, :1], *args, **kwargs)

    broken.model.rotary_emb.forward = started_anew
    made = decoded(broken, built.model, built.inputs)
    assert verdicts(made) == {STEPS: False, CHUNKS: False}
    assert made[CHUNKS].case.note.startswith("step 2 of 2")


def test_a_module_that_makes_its_own_empty_cache_is_given_it() -> None:
    torch.manual_seed(0)
    model = CausalLanguageModel(Design(vocabulary=29, width=16, heads=2)).eval()
    made = decoded(copy.deepcopy(model), model, (small.ids(),), cache="cache")
    assert verdicts(made) == {STEPS: True, CHUNKS: True}


def test_half_types_are_decoded_in_float64() -> None:
    sides = small.WithCache().bfloat16(), small.Plain().bfloat16()
    made = decoded(*sides, (small.ids(),), **BY_NAME)
    assert verdicts(made) == {STEPS: True, CHUNKS: True}
    assert made[STEPS].case.largest < 1e-12


def test_every_case_begins_with_an_empty_cache() -> None:
    sides = [Subject("side", small.KeepingCache()), Subject("other", small.Plain())]
    kept = [emptied(side, BY_SELF) for side in sides]
    assert kept[0].run is not sides[0].run
    comparison = Comparison(kept[0], kept[1], (small.ids(),), Options(BY_SELF, gradients=False))
    made = list(cases(comparison, declared=True))
    assert [case for case in made if case.equal is not True] == []
    assert {"one sample", "length 1", STEPS} <= {case.name for case in made}
    assert emptied(sides[0], {}) is sides[0]
