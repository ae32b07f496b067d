"""Objects of others are asked for attributes that they don't have, and may raise anything then."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.checks.attributes import attribute
from tests.checks.small import SelfAttention


class InDict:
    """A config that looks every name up in a dict, and lets its KeyError through."""

    def __init__(self, **values: Any) -> None:
        self.__dict__["values"] = values

    def __getattr__(self, name: str) -> Any:
        return self.values[name]


class AnswersAll:
    """A config that has an answer for every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return AnswersAll()


class Raising:
    @property
    def model_type(self) -> str:
        raise RuntimeError("not yet known")


class Strict(SelfAttention):
    """A module that raises KeyError for what it doesn't have, with a config of some kind."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(11, 16)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            raise KeyError(name) from error

    def forward(self, ids: Tensor) -> Any:
        return self.attend(self.tokens(ids))


def test_an_attribute_is_read_or_the_default_stands_in() -> None:
    assert attribute(InDict(heads=4), "heads") == 4
    assert attribute(InDict(heads=4), "layers", 2) == 2
    assert attribute(Raising(), "model_type") is None
    assert attribute(None, "model_type", "none") == "none"


@pytest.mark.parametrize("kind", [InDict, AnswersAll, Raising])
def test_no_attribute_that_raises_stops_a_check_or_a_rule(kind: type) -> None:
    torch.manual_seed(0)
    ids = torch.randint(0, 11, (3, 7))
    report = attnscope.check(Strict(kind()), ids)
    torch.manual_seed(0)
    plain = attnscope.check(Strict(None), torch.randint(0, 11, (3, 7)))
    assert not [each for each in report.rules_skipped if each.failed]
    assert [f.code for f in report.findings] == [f.code for f in plain.findings]
    assert report.rules_run == plain.rules_run
