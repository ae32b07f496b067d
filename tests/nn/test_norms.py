"""Where norms stand, and what a layer of residual branches refuses."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attnscope.errors import InputError
from attnscope.nn import Dropouts, ResidualLayer


@pytest.mark.parametrize(
    ("placement", "names"),
    [
        ("pre", ["norm1", "norm2"]),
        ("post", ["norm1", "norm2"]),
        ("sandwich", ["norm1", "norm2", "norm1_after", "norm2_after"]),
    ],
)
def test_the_norms_of_a_placement(placement: str, names: list[str]) -> None:
    layer = ResidualLayer()
    layer.add_norms(2, width=4, norm=nn.RMSNorm, placement=placement)  # type: ignore[arg-type]
    assert [name for name, _ in layer.named_children()] == names


def test_only_post_norms_the_stream() -> None:
    x = torch.randn(5, 4) * 100
    for placement, normed in (("pre", False), ("sandwich", False), ("post", True)):
        layer = ResidualLayer()
        layer.add_norms(1, width=4, norm=nn.LayerNorm, placement=placement)  # type: ignore[arg-type]
        out = layer.residual(1, x, torch.zeros_like)
        assert bool((out.abs() < 10).all()) is normed


def test_a_sandwich_bounds_what_is_added() -> None:
    layer = ResidualLayer()
    layer.add_norms(1, width=4, norm=nn.LayerNorm, placement="sandwich")
    added = layer.residual(1, torch.zeros(5, 4), lambda x: torch.randn_like(x) * 1e4)
    assert float(added.detach().abs().max()) < 4


def test_a_placement_without_meaning_is_refused() -> None:
    with pytest.raises(InputError, match="placement='middle'"):
        ResidualLayer().add_norms(1, width=4, norm=nn.LayerNorm, placement="middle")  # type: ignore[arg-type]


def test_a_dropout_that_is_no_probability_is_refused() -> None:
    with pytest.raises(InputError, match="residual="):
        Dropouts(residual=1.5)
    assert Dropouts.everywhere(0.2) == Dropouts(0.2, 0.2, 0.2, 0.2)
