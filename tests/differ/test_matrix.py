"""The matrix of inputs: sound code agrees in all cases, faults that one case shows are found."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.differ.cases.made import qkv
from attnscope.differ.cases.matrix import cases, trials
from attnscope.differ.cases.trial import Trial
from attnscope.differ.comparison import Comparison, Options
from attnscope.differ.entry import paired
from attnscope.differ.result import Case
from attnscope.differ.sides.subject import Subject
from attnscope.targets.architectures import build
from tests.differ import small_models as small
from tests.ports import SOUND, Port
from tests.ports.unseen import UNSEEN_SOUND


def compared(candidate: Any, reference: Any, inputs: Any, **expect: Any) -> Comparison:
    sides = Subject("mine", candidate), Subject("theirs", reference)
    return Comparison(*sides, inputs, Options(expect))


def found(
    candidate: Any, reference: Any, inputs: Any, *, declared: bool = True, **expect: Any
) -> dict[str, Case]:
    """Return the cases by name, after both sides were seen to agree on the inputs themselves."""
    comparison = compared(candidate, reference, inputs, **expect)
    assert comparison.run().equal
    return {case.name: case for case in cases(comparison, declared=declared)}


def different(made: Mapping[str, Case]) -> list[str]:
    return [name for name, case in made.items() if case.equal is False]


def unmade(made: Mapping[str, Case]) -> dict[str, str]:
    return {name: case.note for name, case in made.items() if case.equal is None}


def masked(batch: int = 2, length: int = 7) -> dict[str, Tensor]:
    mask = torch.ones(batch, length, dtype=torch.long)
    return {"ids": small.ids(batch, length), "attention_mask": mask}


# -- sound code ----------------------------------------------------------------------------------

QUICK = "gpt-oss packed encoder function-by function-other numpy cross opt cancel"
sound = [
    port
    for port in (*SOUND, *UNSEEN_SOUND)
    if any(word in port.name for word in QUICK.split()) and "two-kernels" not in port.name
]


@pytest.mark.parametrize("port", sound[::4], ids=lambda port: port.name)
def test_no_case_of_a_sound_port_differs(port: Port) -> None:
    pair = port.make()
    sides = Subject("mine", pair.candidate), Subject("theirs", pair.reference)
    with paired(sides, port.weights, pair.inputs) as pairs:
        comparison = Comparison(*sides, pair.inputs, Options(), pairs)
        made = {case.name: case for case in cases(comparison, declared=True)}
    assert different(made) == []
    assert sum(case.equal is True for case in made.values()) >= 3


@pytest.mark.parametrize("name", ["llama", "bart"])
def test_an_architecture_agrees_with_its_copy_in_every_case(name: str) -> None:
    built = build(name)
    made = found(copy.deepcopy(built.model), built.model, built.inputs, declared=False)
    assert different(made) == []
    wanted = {"one sample", "3 samples", "length 1", "padding right", "padding left", "float64"}
    wanted |= {"cached decoding, one token a step", "cached decoding, in two chunks"}
    assert all(made[case].equal for case in wanted)


def test_a_small_model_agrees_with_its_copy_in_every_case() -> None:
    made = found(small.Plain(), small.Plain(), masked(), declared=False)
    assert {name: case.equal for name, case in made.items()} == dict.fromkeys(made, True)
    assert list(made) == [
        "one sample",
        "3 samples",
        "length 1",
        "length 2",
        "length 4",
        "length 15",
        "padding right",
        "padding left",
        "float64",
        "bfloat16",
        "train mode",
    ]


def test_models_and_their_modes_and_types_are_as_before() -> None:
    model, other = small.Plain(dropout=0.1), small.Plain()
    before = copy.deepcopy(model.state_dict())
    found(model, other, masked())
    assert not any(module.training for side in (model, other) for module in side.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert {p.dtype for p in other.parameters()} == {torch.float32}


def test_the_random_state_is_as_before() -> None:
    comparison = compared(small.Plain(dropout=0.1), small.Plain(), masked())
    before = torch.get_rng_state()
    list(cases(comparison, declared=False))
    assert torch.equal(torch.get_rng_state(), before)


# -- faults that a case shows --------------------------------------------------------------------


def test_positions_beyond_a_table_are_found_at_a_greater_length() -> None:
    made = found(small.Plain(places=small.clamped), small.Plain(), masked(), declared=False)
    assert different(made) == ["length 15"]


def test_given_inputs_are_not_made_longer() -> None:
    made = found(small.Plain(places=small.clamped), small.Plain(), masked())
    assert different(made) == []


def test_a_window_that_is_declared_is_found_where_it_shows() -> None:
    sides = small.Plain(), small.Plain(seen=small.window_of_four)
    made = found(*sides, masked(length=4), window=4)
    assert different(made) == ["length 7"]
    assert "window" in made["length 7"].note
    assert different(found(*sides, masked(length=4))) == []


def test_samples_that_are_mixed_are_found_in_another_batch() -> None:
    made = found(small.Plain(change=small.over_the_batch), small.Plain(), masked(batch=1))
    assert "2 samples" in different(made)
    assert "length 1" not in different(made)


def test_a_batch_axis_that_is_lost_is_found_with_one_sample() -> None:
    made = found(small.Plain(change=small.squeezed), small.Plain(), masked())
    assert made["one sample"].equal is not True
    assert made["3 samples"].equal


class IgnoringPadding(small.Plain):
    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        del attention_mask
        return super().forward(ids)


class SilentPadding(small.Plain):
    """Gives zeros for padding, which nobody reads."""

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        output = super().forward(ids, attention_mask)
        return output if attention_mask is None else output * attention_mask[..., None]


class CountingRealTokens(small.Plain):
    """Gives positions to real tokens alone."""

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        assert attention_mask is not None
        places = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        self.places = partial(given, places)
        return super().forward(ids, attention_mask)


def given(places: Tensor, start: int, length: int) -> Tensor:
    del start, length
    return places


def test_a_mask_that_is_ignored_is_found_where_real_tokens_see_padding() -> None:
    causal = found(IgnoringPadding(), small.Plain(), masked())
    assert different(causal) == ["padding left"]
    both = IgnoringPadding(seen=small.all_seen), small.Plain(seen=small.all_seen)
    assert different(found(*both, masked())) == ["padding right", "padding left"]


def test_only_real_tokens_have_to_agree_beside_padding() -> None:
    made = found(SilentPadding(), small.Plain(), masked())
    assert different(made) == []
    assert "padding differ" in made["padding right"].note


def test_a_candidate_right_by_itself_behind_padding_is_not_blamed() -> None:
    made = found(CountingRealTokens(), small.Plain(), masked())
    assert different(made) == []
    assert "behind padding" in unmade(made)["padding left"]
    swapped = found(small.Plain(), CountingRealTokens(), masked())
    assert different(swapped) == ["padding left"]


def test_padding_stays_on_the_side_where_it_was_given() -> None:
    inputs = masked()
    inputs["attention_mask"][1, -2:] = 0
    made = found(small.Plain(), small.Plain(), inputs)
    assert "padding left" not in made
    assert made["padding right"].equal


def test_what_differs_in_train_mode_alone_is_found() -> None:
    made = found(small.Plain(train_scale=1.1), small.Plain(), masked())
    assert different(made) == ["train mode"]


def test_train_mode_is_left_out_where_something_drops() -> None:
    made = found(small.Plain(train_scale=1.1, dropout=0.2), small.Plain(), masked())
    assert different(made) == []
    assert unmade(made)["train mode"] == "random in it: mine"


class FromFourOn(small.Plain):
    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if ids.shape[1] < 4:
            message = "too short"
            raise ValueError(message)
        return super().forward(ids, attention_mask)


def test_a_side_that_raises_is_limited_not_different() -> None:
    made = found(FromFourOn(), small.Plain(), masked())
    assert different(made) == []
    assert unmade(made)["length 1"] == "mine raised ValueError: too short"
    turned = found(small.Plain(), FromFourOn(), masked())
    assert unmade(turned)["length 2"] == "theirs raised ValueError: too short"


def test_a_case_that_differs_carries_its_first_difference() -> None:
    comparison = compared(small.Plain(), small.Plain(seen=small.window_of_four), masked(length=4))
    made: list[Trial] = list(trials(comparison, declared=False))
    (wrong,) = [trial for trial in made if trial.case.equal is False]
    assert wrong.first is not None
    assert wrong.first.stage == "scores"
    assert wrong.first.explanation is not None
    assert wrong.case.largest == wrong.first.largest
    assert wrong.comparison is not None
    again = wrong.comparison.run().first_difference
    assert again is not None
    assert (again.stage, again.largest) == (wrong.first.stage, wrong.first.largest)


def test_inputs_that_cannot_be_cut_say_why() -> None:
    class Odd(small.Plain):
        def forward(self, ids: Tensor, extra: Any = None) -> Tensor:
            del extra
            return super().forward(ids)

    made = found(Odd(), Odd(), {"ids": small.ids(), "extra": {"a": 1}})
    assert unmade(made)["other inputs"] == "the inputs hold a dict"


def test_tokens_of_a_sequence_first_layer_are_told_from_samples() -> None:
    layer = nn.MultiheadAttention(16, 2).eval()
    x = torch.randn(5, 3, 16, generator=torch.Generator().manual_seed(0))
    made = found(copy.deepcopy(layer), layer, (x, x, x))
    assert {"one sample", "4 samples", "length 1", "length 2"} <= set(made)
    assert different(made) == []


# -- plain functions -----------------------------------------------------------------------------


def by_hand(q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool = False) -> Tensor:
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT / root(q)
    if is_causal:
        scores = scores.masked_fill(~small.corner(*scores.shape[-2:]), -torch.inf)
    return scores.softmax(-1) @ v


def root(q: Tensor) -> float:
    return math.sqrt(q.shape[-1])


def scaled_by_values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / root(v)).softmax(-1) @ v


def tiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = (x.repeat(1, q.shape[1] // x.shape[1], 1, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v)


def last_corner(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    seen = small.causal(q.shape[-2], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def first_corner(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_ignored(q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool = False) -> Tensor:
    del is_causal
    return by_hand(q, k, v)


def hiding(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = q @ k.mT / root(q)
    return (scores if mask is None else scores.masked_fill(mask, -torch.inf)).softmax(-1) @ v


def showing(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return hiding(q, k, v, None if mask is None else ~mask)


def halved(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return hiding(q, k, v, None if mask is None else ~mask | (torch.arange(len(mask)) < 2))


def inverted(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    return hiding(q, k, v, attn_mask)


def of_functions(candidate: Any, reference: Any) -> dict[str, Case]:
    return found(candidate, reference, qkv(0), declared=False)


def test_a_function_by_hand_agrees_with_torch_in_every_shape() -> None:
    made = of_functions(by_hand, F.scaled_dot_product_attention)
    assert {name: case.equal for name, case in made.items()} == dict.fromkeys(made, True)
    assert {"kv heads shared", "one query, several keys", "is_causal=True"} <= set(made)


@pytest.mark.parametrize(
    ("candidate", "reference", "wanted"),
    [
        (scaled_by_values, F.scaled_dot_product_attention, "value_dim other than head_dim"),
        (tiled, F.scaled_dot_product_attention, "kv heads shared"),
        (last_corner, first_corner, "fewer queries than keys"),
        (causal_ignored, F.scaled_dot_product_attention, "is_causal=True"),
        (inverted, F.scaled_dot_product_attention, "attn_mask given, True = may attend"),
        (halved, showing, "mask given, True = may attend"),
    ],
)
def test_a_fault_of_a_function_is_found_in_its_case(
    candidate: Any, reference: Any, wanted: str
) -> None:
    assert wanted in different(of_functions(candidate, reference))


def test_a_mask_of_another_convention_is_said_and_no_fault() -> None:
    made = of_functions(hiding, showing)
    assert different(made) == []
    assert unmade(made)["mask given, True = may attend"] == "mine takes mask as True = hidden"


def test_given_tensors_of_a_function_keep_their_shapes() -> None:
    made = found(scaled_by_values, F.scaled_dot_product_attention, qkv(0))
    assert different(made) == []
    assert set(made) == {"one sample", "length 1", "length 2", "length 4"}
