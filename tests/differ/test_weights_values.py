"""Pairs by value alone: names that say nothing, every rearrangement, other types, ties."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from attnscope.differ.weights import pair

Change = Callable[[Tensor], Tensor]


def bare(**tensors: Tensor) -> nn.Module:
    module = nn.Module()
    for name, tensor in tensors.items():
        module.register_parameter(name, nn.Parameter(tensor.detach().clone()))
    return module


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


W = random(24, 16)

CHANGES: dict[str, tuple[Change, str]] = {
    "whole": (lambda w: w, "whole"),
    "transposed": (lambda w: w.T, "transposed"),
    "rows": (lambda w: w[8:20], "rows [8:20]"),
    "columns": (lambda w: w[:, 4:12], "columns [4:12]"),
    "rows transposed": (lambda w: w[8:20].T, "rows [8:20], transposed"),
    "heads": (
        lambda w: w.view(4, 6, 16)[[2, 0, 3, 1]].reshape(24, 16),
        "heads permuted [2, 0, 3, 1], 6 rows each",
    ),
    "heads of o": (
        lambda w: w.view(24, 4, 4)[:, [2, 0, 3, 1]].reshape(24, 16),
        "heads permuted [2, 0, 3, 1], 4 columns each",
    ),
    "to halves": (
        lambda w: w.view(4, 3, 2, 16).transpose(1, 2).reshape(24, 16),
        "rotary features from interleaved to halves, per head of 6",
    ),
    "to pairs": (
        lambda w: w.view(4, 2, 3, 16).transpose(1, 2).reshape(24, 16),
        "rotary features from halves to interleaved, per head of 6",
    ),
    "copied": (
        lambda w: w[:12].view(2, 6, 16).repeat_interleave(3, 0).reshape(36, 16),
        "each of 2 heads of 6 rows copied 3 times",
    ),
    "tiled": (
        lambda w: w[:12].repeat(3, 1),
        "rows [0:12], 3 times over",
    ),
    "every third": (
        lambda w: w.view(2, 3, 4, 16)[:, 1].reshape(8, 16),
        "rows [4:8] of every 12, 2 times",
    ),
    "per head": (
        lambda w: w.view(4, 6, 16).transpose(1, 2),
        "whole, as axes (0, 2, 1) of the candidate",
    ),
    "one more axis": (lambda w: w[None], "whole, reshaped"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_each_rearrangement_is_found_and_said(case: str) -> None:
    change, how = CHANGES[case]
    candidate = bare(a=change(W))
    found = pair(candidate, bare(b=W), {"ignore": "b"})
    (one,) = found
    assert (one.method, one.proof, one.how) == ("value", "equal", how)
    assert torch.equal(found.value("a"), candidate.get_parameter("a"))


WHOLE = [case for case, (change, _) in CHANGES.items() if change(W).numel() >= W.numel()]


@pytest.mark.parametrize("case", WHOLE)
def test_and_so_is_its_reverse(case: str) -> None:
    other = CHANGES[case][0](W)
    found = pair(bare(a=W if other.numel() == W.numel() else W[:12]), bare(b=other))
    (one,) = found
    assert (one.method, one.proof) == ("value", "equal")
    if other.numel() > W.numel():
        assert [left.why for left in found.left] == ["holds the same values as b"]


@pytest.mark.parametrize("how", ["", ", transposed"])
def test_concatenations_and_pieces_of_several(how: str) -> None:
    q, k, v = (random(8, 16, seed=seed) for seed in range(3))
    fused = torch.cat([q, k, v])
    (one,) = pair(bare(a=fused.T if how else fused), bare(x=q, y=k, z=v))
    assert one.references == ("x", "y", "z")
    assert one.how == f"concatenation of x, y, z{how}"
    back = pair(bare(x=q, y=k, z=v), bare(a=fused.T if how else fused))
    assert [pair.proof for pair in back] == ["equal"] * 3


def test_parts_taken_per_head() -> None:
    q, k, v = (random(8, 16, seed=seed) for seed in range(3))
    fused = torch.stack([part.view(2, 4, 16) for part in (q, k, v)], 1).reshape(24, 16)
    (one,) = pair(bare(a=fused), bare(x=q, y=k, z=v))
    assert one.how == "x, y, z taken per head: 2 times 4 + 4 + 4 rows"
    shared = torch.cat([q[:4], k[:4], v[:4]])
    told = pair(bare(a=shared), bare(x=q, y=k, z=v, w=W), {"ignore": ["x", "y", "z", "w"]})
    assert told["a"].how == "rows [0:4] of x; rows [0:4] of y; rows [0:4] of z"


def test_biases_follow_in_parts_and_with_zeros_where_there_are_none() -> None:
    q, v = random(8, seed=1), random(8, seed=2)
    (one,) = pair(bare(a=torch.cat([q, torch.zeros(8), v])), bare(x=q, y=v))
    assert one.how == "concatenation of x, y, zeros where it has none"
    assert one.proof == "equal"


def test_rows_of_zeros_prove_nothing_and_disturb_nothing() -> None:
    table = random(12, 16)
    table[[0, 5]] = 0.0  # a padding token and another
    (one,) = pair(bare(a=table), bare(b=table))
    assert (one.how, one.method) == ("whole", "value")


def test_constants_are_never_paired_by_value() -> None:
    found = pair(bare(a=W, b=torch.ones(16)), bare(x=torch.ones(16), y=W))
    assert found["a"].method == "value"
    assert found["b"].method == "shape"
    assert found["b"].proof == "equal"
    wrong = pair(bare(a=W, b=torch.ones(16)), bare(x=torch.zeros(16), y=W), strict=False)
    assert [left.name for left in wrong.unpaired] == ["b", "x"]


def test_an_element_that_differs_is_no_equal_value() -> None:
    other = W.clone()
    other[5, 7] += 1e-6
    found = pair(bare(a=other, b=random(7, 5)), bare(a=W, b=random(7, 5)))
    assert found["a"].proof == "differs"
    assert found["a"].largest == pytest.approx(1e-6, rel=0.2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_values_are_compared_in_the_coarser_type(dtype: torch.dtype) -> None:
    candidate = bare(a=W.T).to(dtype)
    (one,) = pair(candidate, bare(b=W))
    assert (one.method, one.proof, one.how) == ("value", "equal", "transposed")
    (back,) = pair(bare(b=W), candidate)
    assert (back.method, back.proof) == ("value", "equal")


def test_negative_zero_and_nan_are_values_like_others() -> None:
    mine, theirs = W.clone(), W.clone()
    mine[0, 0], theirs[0, 0] = -0.0, 0.0
    mine[1, 1] = theirs[1, 1] = torch.nan
    (one,) = pair(bare(a=mine), bare(b=theirs))
    assert (one.method, one.proof) == ("value", "equal")


def test_layers_that_were_copied_from_one_pair_in_their_order() -> None:
    def stack() -> nn.Module:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
        return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)

    for one in pair(stack(), stack()):
        assert one.references == (one.candidate,)


def test_swapped_values_stay_swapped_and_are_said() -> None:
    torch.manual_seed(0)
    reference = nn.ModuleDict({name: nn.Linear(16, 16) for name in ("q_proj", "k_proj", "v_proj")})
    candidate = nn.ModuleDict({name: nn.Linear(16, 16) for name in ("q_proj", "k_proj", "v_proj")})
    state = reference.state_dict()
    for leaf in ("weight", "bias"):
        first, second = f"q_proj.{leaf}", f"k_proj.{leaf}"
        state[first], state[second] = state[second], state[first]
    candidate.load_state_dict(state)
    found = pair(candidate, reference)
    assert not found.copied
    assert found["q_proj.weight"].references == ("k_proj.weight",)
    assert found["q_proj.weight"].note == "by its name it would be q_proj.weight"


def test_a_square_weight_loaded_transposed_is_kept_and_said() -> None:
    torch.manual_seed(0)
    reference, candidate = (
        nn.ModuleDict({"c_fc": nn.Linear(16, 24), "c_proj": nn.Linear(16, 16)}) for _ in range(2)
    )
    state = reference.state_dict()
    state["c_proj.weight"] = state["c_proj.weight"].T.clone()
    candidate.load_state_dict(state)
    found = pair(candidate, reference)
    told = found["c_proj.weight"]
    assert (told.method, told.how, told.proof) == ("value", "transposed", "equal")
    assert "transposed" in told.note
    assert not found.copied


def test_what_differs_among_values_that_correspond_is_not_copied_over() -> None:
    torch.manual_seed(0)
    reference, candidate = (nn.MultiheadAttention(16, 4) for _ in range(2))
    candidate.load_state_dict(reference.state_dict())
    with torch.no_grad():
        candidate.out_proj.weight.mul_(1.03)
        candidate.out_proj.bias.add_(0.5)
    found = pair(candidate, reference)
    assert {one.candidate for one in found.differing} == {"out_proj.weight", "out_proj.bias"}
    assert not found.copied
    assert found["out_proj.weight"].note == "the others correspond, so this one was not copied"
    assert {name for one in found.gradient_pairs() for name in one.candidate} == {
        "in_proj_weight",
        "in_proj_bias",
    }
    copied = pair(candidate, reference, "copy")
    assert {one.candidate for one in copied.copied} == {"out_proj.weight", "out_proj.bias"}
    kept = pair(candidate, reference, "keep")
    assert not kept.copied
    assert len(kept) == len(found)


class Tied(nn.Module):
    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.head = nn.Linear(8, 12, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.head(self.embed(ids))
        return out


def gradients(model: nn.Module) -> dict[str, Tensor | None]:
    model(torch.tensor([[1, 4, 4, 7]])).square().sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("ties", [(True, True), (True, False), (False, True)])
def test_tied_weights_meet_untied_ones_and_their_gradients_are_added(
    ties: tuple[bool, bool],
) -> None:
    mine, theirs = ties
    candidate, reference = Tied(tied=mine), Tied(tied=theirs)
    with torch.no_grad():
        reference.head.weight.copy_(reference.embed.weight)
    found = pair(candidate, reference)
    found.apply()
    assert torch.equal(candidate.head.weight, reference.embed.weight)
    ours, others = gradients(candidate), gradients(reference)
    (one,) = found.gradient_pairs()
    assert one.apart == (mine == theirs)
    both = one.of(ours, others)
    assert both is not None
    torch.testing.assert_close(*both)
    if not theirs:
        assert [left.why for left in found.left] == ["holds the same values as embed.weight"]
