"""The examples do what their texts say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from examples import article_attention, own_attention, training_step


def reach(outputs: tuple[Tensor, Tensor], axis: int) -> list[int]:
    """Return the places along ``axis`` at which the two outputs differ."""
    before, after = outputs
    others = [other for other in range(before.ndim) if other != axis]
    return (before != after).sum(dim=others).nonzero().flatten().tolist()


def changed(x: Tensor, axis: int, index: int) -> Tensor:
    """Return ``x`` with other values at ``index`` of ``axis``."""
    changed = x.clone()
    changed.select(axis, index).add_(1.0)
    return changed


def test_the_article_attends_over_the_batch_and_never_over_the_sequence() -> None:
    model, x = article_attention.model(), article_attention.inputs()
    sequence_axis = article_attention.expect["sequence_axis"]
    batch_axis = article_attention.expect["batch_axis"]

    output, weights = model(x)
    assert output.shape == x.shape == (10, 3, 32)
    assert weights.shape == (10, 4, 3, 3)

    token_changed = model(changed(x, sequence_axis, 4))[0]
    assert reach((output, token_changed), sequence_axis) == [4]
    sample_changed = model(changed(x, batch_axis, 1))[0]
    assert reach((output, sample_changed), batch_axis) == [0, 1, 2]


def test_the_article_hides_what_its_mask_hides() -> None:
    model, x = article_attention.model(), article_attention.inputs()
    _, weights = model(x, mask=torch.tensor([1, 1, 0]))
    assert weights[..., 2].eq(0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(10, 4, 3))


def test_own_attention_is_causal_and_keeps_samples_apart() -> None:
    model, x = own_attention.model(), own_attention.inputs()
    output = model(x)
    assert reach((output, model(changed(x, 1, 4))), axis=1) == [4, 5, 6]
    assert reach((output, model(changed(x, 0, 1))), axis=0) == [1]


def test_models_and_inputs_are_the_same_every_time_and_leave_the_random_state() -> None:
    before = torch.get_rng_state()
    for example in (article_attention, own_attention):
        first, second = example.model().state_dict(), example.model().state_dict()
        assert all(torch.equal(first[name], second[name]) for name in first)
        assert torch.equal(example.inputs(), example.inputs())
    assert torch.equal(torch.get_rng_state(), before)


def test_the_training_step_prints_one_line_a_call(capsys: pytest.CaptureFixture[str]) -> None:
    training_step.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["layers.0.self_attn", "layers.1.self_attn"]
    for line in lines:
        per_head = [float(value) for value in line.split(":")[1].split()]
        assert len(per_head) == 4
        assert all(value > 0 for value in per_head)
