"""What the author intends, read from a dict or from KEY=VALUE."""

from __future__ import annotations

import pytest

from attnscope.errors import TargetError
from attnscope.targets import parse_expect, read_expect


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("causal=true", True),
        ("causal=False", False),
        ("prefix=3", 3),
        ("prefix=prefix_length", "prefix_length"),
        ("padding=attention_mask keep", "attention_mask keep"),
        ("padding=ids pad=0", "ids pad=0"),
        ("window=[4, None]", [4, None]),
        ("window=8", 8),
        ("scale=0.125", 0.125),
        ("batch_axis=1", 1),
        ("positions=false", False),
        ("positions=position_ids", "position_ids"),
        ("cache=self", "self"),
        ("dropout=on in eval", "on in eval"),
    ],
)
def test_a_pair_is_read(pair: str, value: object) -> None:
    assert parse_expect([pair]) == {pair.partition("=")[0]: value}


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("causal", "has no ="),
        ("casual=true", "did you mean causal?"),
        ("qqqq=1", "use one of: causal"),
        ("causal=1", "give true or false"),
        ("padding=mask", "NAME keep"),
        ("padding=mask pad=x", "NAME keep"),
        ("window=wide", "give a number"),
        ("scale=true", "give a number"),
        ("positions=true", "or false"),
        ("dropout=always", "off in eval"),
    ],
)
def test_a_wrong_pair_is_explained(pair: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_expect([pair])
    assert said in str(caught.value)


def test_expect_has_to_be_a_dict() -> None:
    with pytest.raises(TargetError, match="of type list"):
        read_expect(["causal"], "reading expect of model.py")
