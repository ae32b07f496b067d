"""What both sides ran under is compared before any number, equal or not."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from attnscope.differ.conditions import Condition, compare_conditions
from attnscope.differ.weights import pair


class Block(nn.Module):
    def __init__(self, dropout: float = 0.0, **attributes: Any) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.drop = nn.Dropout(dropout)
        for name, value in attributes.items():
            setattr(self, name, value)


def told(*args: Any, **kwargs: Any) -> dict[str, Condition]:
    return {one.name: one for one in compare_conditions(*args, **kwargs)}


def test_two_alike_differ_in_nothing_and_are_listed() -> None:
    found = told(Block(num_heads=2).eval(), Block(num_heads=2).eval())
    assert all(one.equal and not one.note for one in found.values())
    assert found["mode"].candidate == "eval"
    assert found["dropout"].candidate == "none active"
    assert found["dtype"].candidate == "float32"
    assert found["device"].candidate == "cpu"
    assert found["autocast"].candidate == "off"
    assert found["heads"].candidate == "2"


def test_the_mode_names_the_modules_that_differ() -> None:
    candidate, reference = Block().eval(), Block().eval()
    candidate.drop.train()
    one = told(candidate, reference)["mode"]
    assert str(one) == "mode: eval, but train in drop, the reference eval"
    assert told(Block(), reference)["mode"].candidate == "train"
    mostly = Block()
    mostly.norm.eval()
    assert told(mostly, reference)["mode"].candidate == "train, but eval in norm"


def test_only_dropout_that_is_active_counts() -> None:
    assert told(Block(0.1).eval(), Block().eval())["dropout"].equal
    one = told(Block(0.1), Block())["dropout"]
    assert (one.candidate, one.reference) == ("0.1 in 1 places", "none active")
    by_attribute = told(Block(attention_dropout=0.2), Block())["dropout"]
    assert by_attribute.candidate == "0.2 in 1 places"
    inside = told(nn.MultiheadAttention(8, 2, dropout=0.3), nn.MultiheadAttention(8, 2))
    assert inside["dropout"].candidate == "0.3 in 1 places"


def test_types_are_compared() -> None:
    one = told(Block().bfloat16(), Block())["dtype"]
    assert (one.candidate, one.reference, one.equal) == ("bfloat16", "float32", False)
    assert "coarser type's rounding" in one.note
    mixed = Block()
    mixed.fc.double()
    assert told(mixed, Block())["dtype"].candidate == "float32, float64"


def test_autocast_is_said() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert told(Block(), Block())["autocast"].candidate == "cpu bfloat16"


def test_settings_that_both_name_are_compared_whatever_they_are_called() -> None:
    config = SimpleNamespace(
        num_attention_heads=4,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_theta": 10000.0, "partial_rotary_factor": 0.5},
        sliding_window=8,
        hidden_act="silu",
        _attn_implementation="eager",
    )
    reference = nn.Module()
    reference.config = config  # type: ignore[assignment]
    candidate = nn.Module()
    candidate.attn = Block(n_head=4, rope_base=500000, rotary_pct=0.5, window=7)
    found = told(candidate, reference)
    assert found["heads"].equal
    assert found["rotary share"].equal
    base = found["rotary base"]
    assert (base.candidate, base.reference) == ("500000", "10000")
    assert base.note == "attn.rope_base against config.rope_parameters.rope_theta"
    assert not found["window"].equal
    assert found["norm eps"].candidate == "1e-05"  # of the norm itself
    assert found["norm eps"].reference == "1e-06"
    assert "activation" not in found  # one side alone names it
    assert found["attention kernel"].candidate == "none"


def test_the_first_token_that_differs_is_named() -> None:
    ids = torch.tensor([[5, 6, 7], [5, 8, 9]])
    other = ids.clone()
    other[1, 1] = 4
    one = told(Block(), Block(), inputs=({"input_ids": ids}, (other,)))["token ids"]
    assert not one.equal
    assert one.note == "1 of 6 differ, the first at [1, 1]"
    assert (one.candidate, one.reference) == ("8", "4")
    assert told(Block(), Block(), inputs=(ids, {"tokens": ids}))["token ids"].equal


def test_a_missing_bos_token_is_said() -> None:
    reference = Block(config=SimpleNamespace(bos_token_id=1, pad_token_id=0))
    with_bos, without = torch.tensor([[1, 5, 6]]), torch.tensor([[5, 6]])
    found = told(Block(), reference, inputs=(without, with_bos))
    assert (found["BOS"].candidate, found["BOS"].reference) == ("absent", "present")
    assert found["token ids"].note == "the shapes differ"
    assert "shifts every position" in found["BOS"].note


@pytest.mark.parametrize("kind", ["ids", "keep", "drop", "additive"])
def test_padding_on_another_side_is_said(kind: str) -> None:
    reference = Block(config=SimpleNamespace(pad_token_id=0))
    left, right = torch.tensor([[0, 0, 5, 6, 7]]), torch.tensor([[5, 6, 7, 0, 0]])
    if kind == "ids":
        one = told(Block(), reference, inputs=(left, right))["padding tokens"]
    else:
        masks = {
            "keep": [(ids != 0).long() for ids in (left, right)],
            "drop": [ids == 0 for ids in (left, right)],
            "additive": [torch.where(ids == 0, -torch.inf, 0.0) for ids in (left, right)],
        }[kind]
        inputs = tuple({"attention_mask": mask} for mask in masks)
        one = told(Block(), reference, inputs=inputs)["padding side"]
    assert (one.candidate, one.reference, one.equal) == ("left", "right", False)


def test_an_input_that_one_side_alone_gets_is_said() -> None:
    ids = torch.tensor([[5, 6]])
    mask = torch.ones(1, 2)
    one = told(Block(), Block(), inputs=(ids, {"input_ids": ids, "attention_mask": mask}))["mask"]
    assert one.note == "the reference alone is given it, the candidate is not"
    assert one.candidate == "absent"


def test_floats_are_compared_where_nan_equals_nan() -> None:
    x = torch.tensor([[1.0, torch.nan], [2.0, 3.0]])
    assert told(Block(), Block(), inputs=({"y": x}, {"y": x.clone()}))["y"].equal
    other = x.clone()
    other[1, 0] = 2.5
    assert not told(Block(), Block(), inputs=({"y": x}, {"y": other}))["y"].equal
    double = told(Block(), Block(), inputs=({"y": x}, {"y": x.double()}))["y"]
    assert double.note == "the same values in another type"


def test_functions_have_inputs_alone() -> None:
    x = torch.ones(1, 2, 3)
    names = list(told(lambda q: q, lambda q: q, inputs=((x,), (x,))))
    assert names == ["autocast", "float32 products", "input 0"]


def test_seeds_and_versions_are_compared() -> None:
    found = told(
        Block(),
        Block(),
        seeds=(0, 1),
        versions=({"torch": "2.13", "transformers": "5.24"}, {"torch": "2.12"}),
    )
    assert not found["seed"].equal
    assert not found["torch version"].equal
    assert found["transformers version"].reference == "None"


def test_checksums_of_pairs_tell_which_weights_differ() -> None:
    candidate, reference = Block(), Block()
    candidate.load_state_dict(reference.state_dict())
    assert told(candidate, reference, weights=pair(candidate, reference))["weights"].equal
    with torch.no_grad():
        candidate.fc.bias.add_(1.0)
    one = told(candidate, reference, weights=pair(candidate, reference))["weights"]
    assert not one.equal
    assert one.candidate.startswith("3 of 4 tensors equal, fc.bias ")
    assert one.note == "fc.bias differ"
    fresh = Block()
    weights = pair(fresh, reference)
    before = told(fresh, reference, weights=weights)["weights"]
    assert (before.equal, before.note) == (False, "2 are copied for the comparison")
    with weights.apply():
        during = told(fresh, reference, weights=weights)["weights"]
    assert (during.equal, during.note) == (True, "2 of them copied for the comparison")


def test_a_condition_is_plain_data() -> None:
    one = Condition("mode", "train", "eval", equal=False, note="why")
    assert one.to_json() == asdict(one)
    assert str(one) == "mode: train, the reference eval (why)"
    assert str(Condition("mode", "eval", "eval", equal=True)) == "mode: eval"


def test_looking_changes_nothing() -> None:
    candidate, reference = Block(0.5), Block(0.5)
    state = torch.get_rng_state()
    compare_conditions(candidate, reference, weights=pair(candidate, reference))
    assert torch.equal(state, torch.get_rng_state())
    assert candidate.training


def test_an_axis_is_no_width() -> None:
    def normed() -> nn.Module:
        linear = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        return nn.ModuleList([linear, nn.Softmax(dim=-1)])

    assert "width" not in {one.name for one in compare_conditions(normed(), normed())}


def test_weights_without_counterpart_are_counted_and_named() -> None:
    candidate = nn.ModuleDict({"q": nn.Linear(4, 4), "extra": nn.Linear(3, 5)})
    reference = nn.ModuleDict({"q": nn.Linear(4, 4)})
    reference.load_state_dict(
        {name: value for name, value in candidate.state_dict().items() if name.startswith("q")}
    )
    (told,) = (
        one
        for one in compare_conditions(
            candidate, reference, weights=pair(candidate, reference, "keep")
        )
        if one.name == "weights"
    )
    assert str(told) == (
        "weights: 2 tensors and 2 unpaired, the reference 2 tensors"
        " (no counterpart of extra.weight, extra.bias)"
    )
    assert not told.equal
