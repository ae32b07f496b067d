"""Warnings of PyTorch come once, and from the model's own line."""

from __future__ import annotations

import contextlib
import sys
import warnings

import pytest
import torch
from torch import Tensor, nn

from attnscope.capture import record, trace


class Implicit(nn.Module):
    """Leaves out the axis of its softmax, about which PyTorch warns."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend from x to x."""
        weights = nn.functional.softmax(x @ x.transpose(1, 2))
        return weights @ x


X = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _nothing_was_shown() -> None:
    sys.modules[__name__].__dict__.pop("__warningregistry__", None)


def files(caught: list[warnings.WarningMessage]) -> list[str]:
    """Where warnings say that they come from."""
    return [str(each.filename) for each in caught]


def test_a_warning_names_the_models_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        trace(Implicit(), X)
    assert files(caught) == [__file__]


def test_what_was_shown_is_not_shown_again() -> None:
    model = Implicit()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        model(X)
        call = trace(model, X)[0]
        model(X)
        assert call.replay_error == 0.0
        call.numbers()
        model(X)
    assert files(caught) == [__file__]


def test_reading_a_call_warns_of_nothing_even_where_warnings_are_errors() -> None:
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("default")
        call = trace(Implicit(), X)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call.replay_error == 0.0
        assert call.recipe.normaliser == "softmax"


def test_filters_by_module_meet_the_models_module() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
        trace(Implicit(), X)
    assert not caught


def test_other_warnings_pass_through() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        with record():
            warnings.warn("of the user", UserWarning, stacklevel=1)
    assert [str(each.message) for each in caught] == ["of the user"]


@pytest.mark.parametrize("fails", [False, True])
def test_warnings_are_shown_as_before_afterwards(fails: bool) -> None:  # noqa: FBT001  a parameter
    shown, filters = warnings.showwarning, list(warnings.filters)
    expected = pytest.raises(KeyError) if fails else contextlib.nullcontext()
    with expected, record():
        _ = {"there": 1}["missing" if fails else "there"]
    assert warnings.showwarning is shown
    assert list(warnings.filters) == filters
