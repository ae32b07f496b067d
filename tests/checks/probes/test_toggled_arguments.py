from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.checks.probes.foreign_masks import foreign_masks
from attnscope.checks.probes.toggled_arguments import toggled_arguments
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(
        self, x: Tensor, mask: Tensor, lengths: Tensor, window: int, segment_ids: Tensor
    ) -> Tensor:
        del lengths, segment_ids
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        n = x.shape[1]
        near = torch.arange(n)[:, None] - torch.arange(n) < window
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None] & near)


def subject() -> Subject:
    return Subject(
        Model().train(),
        {
            "x": torch.randn(2, 6, 16),
            "mask": torch.arange(6) < torch.tensor([[6], [4]]),
            "lengths": torch.tensor([6, 4]),
            "window": 3,
            "segment_ids": torch.tensor([[0, 0, 0, 1, 1, 1]] * 2),
        },
    )


def test_what_is_read_moves_outputs_and_the_rest_does_not() -> None:
    found = {each.name: each.ignored for each in toggled_arguments(subject())}
    assert found == {"mask": False, "lengths": True, "window": False, "segment_ids": True}


def test_a_sequence_is_no_argument_to_be_toggled() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    with pytest.raises(Skipped, match="give one"):
        toggled_arguments(Subject(layer, torch.randn(2, 5, 16)))


def test_outputs_without_a_finite_number_can_not_be_said_to_move() -> None:
    broken = subject()
    assert broken.model is not None
    broken.model.register_forward_hook(lambda _model, _inputs, output: output * float("nan"))
    with pytest.raises(Skipped, match="finite"):
        toggled_arguments(broken)


def test_everything_is_as_before() -> None:
    one = subject()
    values = {name: value for name, value in one.given.values.items() if isinstance(value, Tensor)}
    before = {name: value.clone() for name, value in values.items()}
    state = torch.get_rng_state()
    toggled_arguments(one)
    foreign_masks(one)
    assert all(torch.equal(before[name], value) for name, value in values.items())
    assert torch.equal(state, torch.get_rng_state())
    assert one.model is not None
    assert one.model.training


def test_the_mask_of_a_sample_is_its_own() -> None:
    assert foreign_masks(subject()) == []
