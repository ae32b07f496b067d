"""Two models made under one seed share numbers by chance: names decide, and it is said."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from attnscope.differ.weights import WeightMap, pair
from attnscope.errors import InputError

WIDTH = 16
Make = Callable[[], nn.Module]


class Split(nn.Module):
    def __init__(self, order: str = "qkvo", *, bias: bool = True, before: int = 0) -> None:
        super().__init__()
        torch.rand(before)
        for name in order:
            setattr(self, name, nn.Linear(WIDTH, WIDTH, bias=bias))


class Fused(nn.Module):
    def __init__(self, *, bias: bool = True, output_first: bool = False) -> None:
        super().__init__()
        if output_first:
            self.to_output = nn.Linear(WIDTH, WIDTH, bias=bias)
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=bias)
        if not output_first:
            self.to_output = nn.Linear(WIDTH, WIDTH, bias=bias)


class Tables(nn.Module):
    def __init__(self, *, swapped: bool) -> None:
        super().__init__()
        tables = {"tok_emb": 20, "pos_emb": 12}
        for name in sorted(tables, reverse=not swapped):
            setattr(self, name, nn.Embedding(tables[name], WIDTH))


class FeedForward(nn.Module):
    def __init__(self, order: str, *, attends: bool = False) -> None:
        super().__init__()
        if attends:
            self.attention = Split()
        for name in order.split():
            sizes = (24, WIDTH) if name == "down_proj" else (WIDTH, 24)
            setattr(self, name, nn.Linear(*sizes))


def multihead(*, bias: bool = True) -> Make:
    return lambda: nn.MultiheadAttention(WIDTH, 2, bias=bias)


def seeded(make: Make, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return make()


SHARED: dict[str, tuple[Make, Make]] = {
    "split, fused": (Split, Fused),
    "split, fused with its output first": (Split, lambda: Fused(output_first=True)),
    "fused with its output first, fused": (lambda: Fused(output_first=True), Fused),
    "another order": (lambda: Split("kqvo"), Split),
    "another order without biases": (
        lambda: Split("oqkv", bias=False),
        lambda: Split(bias=False),
    ),
    "split, multihead": (Split, multihead()),
    "output first, multihead without biases": (
        lambda: Fused(output_first=True, bias=False),
        multihead(bias=False),
    ),
    "numbers drawn before": (lambda: Split(before=2 * WIDTH), Split),
    "numbers drawn before, no biases": (
        lambda: Split(before=WIDTH, bias=False),
        lambda: Split(bias=False),
    ),
    "tables, one a piece of the other": (
        lambda: Tables(swapped=False),
        lambda: Tables(swapped=True),
    ),
    "gate and up": (
        lambda: FeedForward("gate_proj up_proj down_proj"),
        lambda: FeedForward("up_proj gate_proj down_proj"),
    ),
    "up and down, all before them equal": (
        lambda: FeedForward("up_proj down_proj", attends=True),
        lambda: FeedForward("down_proj up_proj", attends=True),
    ),
}


@pytest.mark.parametrize("turned", [False, True], ids=["as named", "turned"])
@pytest.mark.parametrize("case", SHARED)
def test_one_seed_pairs_as_two_seeds_do(case: str, *, turned: bool) -> None:
    first, second = SHARED[case][::-1] if turned else SHARED[case]
    other = pair(seeded(first, 1), seeded(second, 2))
    candidate = seeded(first, 0)
    found = pair(candidate, seeded(second, 0))
    assert [one.arrangement for one in found] == [one.arrangement for one in other]
    assert {one.proof for one in found} <= {"copied", "equal"}
    assert found.copied
    with found.apply():
        for one in found:
            assert torch.equal(candidate.get_parameter(one.candidate), found.value(one.candidate))


def test_chance_is_said_in_the_pair() -> None:
    found = pair(seeded(lambda: Split("kqvo"), 0), seeded(Split, 0))
    said = "holds the values of q.weight, as under one seed; paired by its name"
    assert found["k.weight"].note == said
    assert found["k.weight"].method == "name"
    rows = pair(seeded(Split, 0), seeded(Fused, 0))["k.weight"].note
    assert rows.startswith("holds the values of to_qkv.weight, rows [17:33], as under one seed")
    assert found["v.weight"].note == ""


def test_equal_values_that_agree_with_names_need_no_copy() -> None:
    found = pair(seeded(lambda: Split(bias=False), 0), seeded(lambda: Fused(bias=False), 0))
    assert {(one.method, one.proof) for one in found} == {("value", "equal")}


@pytest.mark.parametrize("wish", ["keep", "copy"])
def test_chance_changes_no_other_wish(wish: str) -> None:
    found = pair(seeded(lambda: Split("kqvo"), 0), seeded(Split, 0), wish)
    assert found["k.weight"].references == ("k.weight",)
    assert found["k.weight"].proof == ("differs" if wish == "keep" else "copied")


def test_what_has_no_counterpart_is_named_by_its_role_under_one_seed() -> None:
    with pytest.raises(InputError) as error:
        pair(seeded(lambda: Split(bias=False), 0), seeded(Split, 0))
    text = str(error.value)
    assert "the reference's q.bias (16,), k.bias (16,), v.bias (16,), o.bias (16,) found no" in text
    assert '"ignore": ["q.bias", "k.bias", "v.bias", "o.bias"]' in text


# values that were loaded


def anonymous(model: nn.Module, order: list[int]) -> nn.Module:
    parameters = list(model.parameters())
    found = nn.Module()
    for number, at in enumerate(order):
        found.register_parameter(f"t{number}", copy.deepcopy(parameters[at]))
    return found


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5, 6, 7], [5, 2, 7, 0, 1, 6, 4, 3]])
@pytest.mark.parametrize("reference", [Split, Fused])
def test_names_that_say_nothing_leave_it_to_values(order: list[int], reference: Make) -> None:
    theirs = seeded(reference, 0)
    count = len(list(theirs.parameters()))
    found = pair(anonymous(theirs, [at for at in order if at < count]), theirs)
    assert {(one.method, one.proof) for one in found} == {("value", "equal")}


def test_a_guessed_part_is_no_name() -> None:
    class SelfAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l0, self.l1, self.l2, self.l3 = (
                nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
            )

    candidate, reference = SelfAttention(), Split("oqkv", bias=False)
    with torch.no_grad():
        for mine, theirs in zip(candidate.parameters(), reference.parameters(), strict=True):
            mine.copy_(theirs)
    assert [one.references for one in pair(candidate, reference)] == [
        ("o.weight",),
        ("q.weight",),
        ("k.weight",),
        ("v.weight",),
    ]


def loaded(reference: nn.Module, names: dict[str, str]) -> nn.Module:
    candidate = copy.deepcopy(reference)
    for mine, theirs in names.items():
        candidate.get_submodule(mine).load_state_dict(reference.get_submodule(theirs).state_dict())
    return candidate


def test_values_loaded_into_each_others_place_stay_there() -> None:
    reference = Split()
    candidate = loaded(reference, {"q": "k", "k": "q"})
    found = pair(candidate, reference)
    assert not found.copied
    assert found["q.weight"].note == "by its name it would be q.weight"


def test_values_loaded_twice_stay_and_are_said_and_the_other_is_no_error() -> None:
    reference = Split()
    found = pair(loaded(reference, {"v": "k"}), reference)
    told = found["v.weight"]
    assert (told.references, told.method, told.proof) == (("v.weight",), "name", "differs")
    assert told.note == (
        "holds the values of k.weight, which leaves others without a counterpart;"
        " paired by its name"
    )
    assert not found.copied


def ends_otherwise(change: Callable[[nn.Module], object], count: int) -> WeightMap:
    reference = nn.ModuleDict({f"l{n}": nn.Linear(WIDTH, WIDTH, bias=False) for n in range(count)})
    candidate = copy.deepcopy(reference)
    with torch.no_grad():
        change(candidate[f"l{count - 1}"])
    return pair(candidate, reference)


def test_what_is_equal_only_in_part_was_not_loaded() -> None:
    def drawn(module: nn.Module) -> object:
        return nn.init.normal_(module.get_parameter("weight"))

    assert [one.candidate for one in ends_otherwise(drawn, 4).copied] == ["l3.weight"]
    assert not ends_otherwise(drawn, 12).copied  # nearly all of it was


def test_what_was_changed_at_the_end_was_loaded() -> None:
    found = ends_otherwise(lambda module: module.get_parameter("weight").mul_(1.03), 4)
    assert [one.candidate for one in found.differing] == ["l3.weight"]
