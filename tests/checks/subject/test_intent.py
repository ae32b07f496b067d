"""What says that a model is causal: expect, inputs, config, names, tables and code."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.subject.given import Given
from attnscope.checks.subject.intent import Intent, causal_intent


def intent(run: Any, inputs: Any = None, **expect: Any) -> Intent | None:
    given = Given.of(run, torch.zeros(2, 5, 4) if inputs is None else inputs)
    return causal_intent(run, given, expect)


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Flagged(Plain):
    def __init__(self, **flags: bool) -> None:
        super().__init__()
        for name, value in flags.items():
            child = Plain()
            vars(child)["is_causal"] = value
            setattr(self, name, child)


def test_expect_comes_first() -> None:
    found = intent(Flagged(one=True), causal=False)
    assert found is not None
    assert (found.value, found.declared) == (False, True)


def test_nothing_says_anything() -> None:
    assert intent(Plain()) is None


def test_an_input_and_a_default() -> None:
    class Asked(Plain):
        def forward(self, x: Tensor, *, causal: bool = True) -> Tensor:
            return x if causal else -x

    found = intent(Asked(), {"x": torch.zeros(2, 5, 4), "causal": False})
    assert found is not None
    assert found.value is False
    by_default = intent(Asked())
    assert by_default is not None
    assert by_default.value is True


def test_flags_of_modules_have_to_agree() -> None:
    agreed = intent(Flagged(one=True, two=True))
    assert agreed is not None
    assert agreed.value is True
    assert intent(Flagged(one=True, two=False)) is None
    unsure = intent(Flagged(one=False))
    assert unsure is not None
    assert (unsure.value, unsure.sure) == (False, False)


def test_where_there_is_a_decoder_its_flag_counts() -> None:
    class Both(Flagged):
        def forward(self, src: Tensor, tgt: Tensor) -> Tensor:  # type: ignore[override]
            return src + tgt

    inputs = {"src": torch.zeros(2, 5, 4), "tgt": torch.zeros(2, 5, 4)}
    found = intent(Both(one=False, two=True), inputs)
    assert found is not None
    assert found.value is True


def test_a_config_says_what_kind_of_model_it_is() -> None:
    class TinyForCausalLM(Plain):
        config = SimpleNamespace(model_type="tiny", is_encoder_decoder=False)

    class Translator(Plain):
        config = SimpleNamespace(model_type="tiny", is_encoder_decoder=True)

    for kind in (TinyForCausalLM, Translator):
        found = intent(kind())
        assert found is not None
        assert found.value is True


@pytest.mark.parametrize(
    ("name", "value", "sure"),
    [
        ("CausalSelfAttention", True, True),
        ("TinyGPT", True, True),
        ("CharLanguageModel", True, True),
        ("MaskedLanguageModel", False, True),
        ("BidirectionalGPT", False, True),
        ("BertLayer", False, False),
    ],
)
def test_names_of_classes(name: str, value: bool, sure: bool) -> None:  # noqa: FBT001  parameters
    found = intent(type(name, (Plain,), {})())
    assert found is not None
    assert (found.value, found.sure) == (value, sure)


@pytest.mark.parametrize("name", ["CausalConv1d", "MaskedSelfAttention", "Encoder"])
def test_names_that_say_nothing_of_attention(name: str) -> None:
    assert intent(type(name, (Plain,), {})()) is None


class Attention(Plain):
    """Attention with a table that it keeps."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1) @ x


class Pairs(Plain):
    """A table of pairs of features."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)


@pytest.mark.parametrize(
    "table",
    [
        torch.ones(6, 6).tril(),
        torch.ones(6, 6, dtype=torch.bool).triu(1),
        torch.full((1, 1, 6, 6), -math.inf).triu(1),
        torch.ones(6, 6).triu(1) * -1e9,
    ],
    ids=["lower", "upper", "added", "added, finite"],
)
def test_a_triangular_table_of_a_module_that_attends(table: Tensor) -> None:
    found = intent(Attention(table))
    assert found is not None
    assert (found.value, found.sure) == (True, True)
    assert intent(Pairs(table)) is None


def test_other_tables_say_nothing() -> None:
    for table in (
        torch.ones(6, 6),
        torch.eye(6),
        torch.ones(6, 6).tril(2),
        torch.ones(2, 2).tril(),
    ):
        assert intent(Attention(table)) is None


def scores(x: Tensor) -> Tensor:
    return x @ x.mT


def below(x: Tensor) -> Tensor:
    return scores(x).tril().softmax(-1) @ x


def above(x: Tensor) -> Tensor:
    mask = torch.triu(torch.ones(5, 5), diagonal=1).bool()
    return scores(x).masked_fill(mask, -math.inf).softmax(-1) @ x


def lower_right(x: Tensor, past: Tensor) -> Tensor:
    mask = torch.ones(x.shape[1], past.shape[1]).tril(past.shape[1] - x.shape[1])
    return (scores(x) * mask).softmax(-1) @ x


def both_sides(x: Tensor, window: int = 2) -> Tensor:
    mask = torch.ones(5, 5).tril(window - 1).triu(1 - window)
    return (scores(x) * mask).softmax(-1) @ x


def lower_part(x: Tensor) -> Tensor:
    return x.tril()


@pytest.mark.parametrize("run", [below, above, lower_right])
def test_code_that_makes_a_causal_triangle_may_say_so(run: Any) -> None:
    inputs = (torch.zeros(2, 5, 5),) * (2 if run is lower_right else 1)
    found = intent(run, inputs)
    assert found is not None
    assert (found.value, found.sure) == (True, False)


@pytest.mark.parametrize("run", [both_sides, lower_part])
def test_other_triangles_say_nothing(run: Any) -> None:
    assert intent(run) is None
