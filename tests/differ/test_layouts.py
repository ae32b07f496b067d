"""Hidden states in other layouts are brought into one, and back."""

from __future__ import annotations

import pytest
import torch

from attnscope.differ.sides.layouts import layouts

B, L, E = 2, 5, 3


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ((B, L, E), (B, L, E)),
        ((L, B, E), (B, L, E)),
        ((B, L, E), (L, B, E)),
        ((B * L, E), (B, L, E)),
        ((B, L, E), (B * L, E)),
        ((L, B, E), (B * L, E)),
        ((B * L, E), (B * L, E)),
    ],
)
def test_some_layout_makes_the_same_states_the_same(
    own: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    states = torch.randn(B, L, E)
    forms = {
        (B, L, E): [states],
        (L, B, E): [states.transpose(0, 1)],
        (B * L, E): [states.reshape(-1, E), states.transpose(0, 1).reshape(-1, E)],
    }
    for mine in forms[own]:
        for theirs in forms[wanted]:
            fitting = [
                one for one in layouts(own, wanted, B) if torch.equal(one.read(mine), theirs)
            ]
            assert fitting
            assert torch.equal(fitting[0].write(theirs), mine)


def test_other_features_or_counts_fit_nowhere() -> None:
    assert not list(layouts((B, L, E), (B, L, E + 1), B))
    assert not list(layouts((B, L, E), (B, L + 1, E), B))
