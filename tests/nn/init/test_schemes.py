"""Every scheme: its formula, its draws, and the facts that are often told otherwise."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from attnscope.errors import InputError
from attnscope.nn import init
from attnscope.nn.init import Place

Q = Place("q", fan_in=96, fan_out=48, drawn_fan_out=48, residuals=8, head_dim=12)
OUTPUT = Place("o", fan_in=48, fan_out=96, drawn_fan_out=96, residuals=8, head_dim=12)
THIRD = Place("q", fan_in=64, fan_out=64, drawn_fan_out=192)

STDS: list[tuple[init.Scheme, Place, float]] = [
    (init.TorchDefault(), Q, 1 / math.sqrt(3 * 96)),
    (init.TorchDefault(), Place("embedding", 96, 1000), 1.0),
    (init.XavierUniform(), Q, math.sqrt(2 / (96 + 48))),
    (init.XavierUniform(gain=2.0), Q, 2 * math.sqrt(2 / (96 + 48))),
    (init.XavierUniform(), THIRD, math.sqrt(2 / (4 * 64))),
    (init.XavierUniform(together=False), THIRD, math.sqrt(2 / (2 * 64))),
    (init.XavierNormal(), Q, math.sqrt(2 / (96 + 48))),
    (init.XavierNormal(), THIRD, math.sqrt(2 / (4 * 64))),
    (init.KaimingUniform(), Q, math.sqrt(2 / 96)),
    (init.KaimingNormal(), Q, math.sqrt(2 / 96)),
    (init.KaimingNormal(gain=1.0), Q, math.sqrt(1 / 96)),
    (init.Normal(), Q, 0.02),
    (init.Normal(0.5), OUTPUT, 0.5),
    (init.ScaledResidual(), Q, 0.02),
    (init.ScaledResidual(), OUTPUT, 0.02 / math.sqrt(8)),
    (init.T5(), Q, (96 * 12) ** -0.5),
    (init.T5(), Place("k", 96, 48), 96**-0.5),
    (init.T5(), OUTPUT, 48**-0.5),
    (init.T5(), Place("ff-out", 384, 96), 384**-0.5),
    (init.T5(), Place("embedding", 96, 1000), 1.0),
    (init.T5(factor=0.5), OUTPUT, 0.5 * 48**-0.5),
    (init.MuP(base=24), Q, 0.02 * math.sqrt(24 / 96)),
    (init.MuP(base=24), Place("head", 96, 1000), 0.02 * 24 / 96),
    (init.MuP(base=24), Place("embedding", 96, 1000), 0.02),
]


@pytest.mark.parametrize(("scheme", "place", "std"), STDS, ids=lambda one: str(one)[:40])
def test_the_std_follows_the_formula_and_the_draw_the_std(
    scheme: init.Scheme, place: Place, std: float
) -> None:
    assert scheme.std(place) == pytest.approx(std, rel=1e-12)
    weight = scheme.draw_(torch.empty(400, 500), place)
    assert float(weight.std()) == pytest.approx(std, rel=0.01)
    largest = float(weight.abs().max())
    if scheme.distribution(place) == "uniform":
        assert largest <= math.sqrt(3) * std * (1 + 1e-6)
    else:
        assert largest > 3 * std


@pytest.mark.parametrize(
    ("scheme", "function"),
    [
        (init.XavierUniform(), nn.init.xavier_uniform_),
        (init.XavierNormal(), nn.init.xavier_normal_),
        (init.KaimingUniform(), nn.init.kaiming_uniform_),
        (init.KaimingNormal(), nn.init.kaiming_normal_),
    ],
)
def test_the_spread_is_that_of_torch_s_function(scheme: init.Scheme, function: object) -> None:
    assert callable(function)
    weight = function(torch.empty(384, 640))
    std = scheme.std(Place("hidden", fan_in=640, fan_out=384))
    assert float(weight.std()) == pytest.approx(std, rel=0.01)


@pytest.mark.parametrize("width", [64, 512, 1024])
def test_a_linear_layer_comes_with_the_root_of_a_third_of_its_fan_in(width: int) -> None:
    weight = nn.Linear(width, width).weight.detach()
    std = init.TorchDefault().std(Place("q", width, width))
    assert std == pytest.approx(1 / math.sqrt(3 * width))
    assert float(weight.std()) == pytest.approx(std, rel=0.02)
    assert float(weight.abs().max()) <= 1 / math.sqrt(width)


def test_the_packed_projection_of_torch_is_half_as_wide_in_scores() -> None:
    width = 512
    module = nn.MultiheadAttention(width, 8)
    third = Place("q", width, width, drawn_fan_out=3 * width)
    std = init.XavierUniform().std(third)
    assert std == pytest.approx(math.sqrt(2 / (4 * width)))
    for part in module.in_proj_weight.detach().chunk(3):
        assert float(part.std()) == pytest.approx(std, rel=0.01)
    default = init.TorchDefault().std(Place("o", width, width))
    assert float(module.out_proj.weight.detach().std()) == pytest.approx(default, rel=0.01)


def test_kaiming_on_v_makes_it_larger_by_the_root_of_two() -> None:
    width = 512
    x = torch.randn(2000, width)
    kept = {}
    for scheme in (init.KaimingNormal(), init.XavierNormal()):
        weight = scheme.draw_(torch.empty(width, width), Place("v", width, width))
        kept[scheme.name] = float((x @ weight.T).std())
    assert kept["kaiming-normal"] == pytest.approx(1.41, abs=0.02)
    assert kept["xavier-normal"] == pytest.approx(1.00, abs=0.02)


def test_mup_is_normal_at_its_base_width() -> None:
    for role in ("q", "o", "head", "embedding"):
        place = Place(role, fan_in=256, fan_out=256)
        assert init.MuP(base=256).std(place) == init.Normal().std(place)


def test_a_generator_fixes_the_draw() -> None:
    draws = [
        init.Normal().draw_(torch.empty(4, 4), Q, torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize(
    ("scheme", "place", "todo"),
    [
        (init.T5(), Place("q", 96, 48), "give head_dim in its Place, or to init.apply"),
        (init.ScaledResidual(), Place("o", 48, 96), "give residuals in its Place"),
        (init.T5(), Place("qkv", 96, 144), "draw them one by one, each with its role in a Place"),
    ],
)
def test_what_a_scheme_needs_and_does_not_know_is_asked_for(
    scheme: init.Scheme, place: Place, todo: str
) -> None:
    with pytest.raises(InputError) as error:
        scheme.std(place)
    assert error.value.todo == todo


def test_every_scheme_says_where_it_is_from() -> None:
    kinds = {type(scheme) for scheme, *_ in STDS}
    assert len(kinds) == 9
    for kind in kinds:
        assert kind.source
        assert kind.formula
        assert kind.__doc__ is not None
        assert "Source:" in kind.__doc__
    assert len({kind.name for kind in kinds}) == len(kinds)


anything: Any = init  # arguments of wrong types are the point
WRONG: tuple[Any, ...] = (-1, math.nan, math.inf, "0.02", None, True, [0.02])


@pytest.mark.parametrize("wrong", WRONG, ids=str)
@pytest.mark.parametrize(
    ("scheme", "parameter"),
    [
        ("XavierUniform", "gain"),
        ("XavierNormal", "gain"),
        ("KaimingUniform", "gain"),
        ("KaimingNormal", "gain"),
        ("Normal", "sigma"),
        ("ScaledResidual", "sigma"),
        ("T5", "factor"),
        ("MuP", "base"),
        ("MuP", "sigma"),
    ],
)
def test_a_parameter_that_is_no_number_from_zero_on_is_refused(
    scheme: str, parameter: str, wrong: Any
) -> None:
    with pytest.raises(InputError, match=f"setting up the scheme .*: {parameter} is "):
        getattr(anything, scheme)(**{parameter: wrong})


def test_zero_draws_zeros_but_is_no_width() -> None:
    assert not init.Normal(0.0).draw_(torch.ones(3, 3), Q).any()
    with pytest.raises(InputError, match="base is 0; give a positive number"):
        init.MuP(base=0)
    with pytest.raises(InputError, match="together is 'no'; give True or False"):
        anything.XavierUniform(together="no")


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (("query", 4, 4), "the role is 'query'; give 'q' or"),
        (("q", 0, 4), "fan_in is 0; give at least 1"),
        (("q", 4, -1), "fan_out is -1"),
        (("q", 4.5, 4), "fan_in is 4.5; give a whole number"),
        (("q", 4, 4, -1), "drawn_fan_out is -1"),
        (("q", 4, 4, 4, 1.5), "residuals is 1.5"),
        (("q", 4, 4, 4, 1, "8"), "head_dim is '8'"),
    ],
)
def test_a_place_that_no_weight_can_have_is_refused(place: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        Place(*place)


def test_a_scheme_without_a_std_is_none() -> None:
    with pytest.raises(TypeError, match="abstract"):
        anything.Scheme()
