"""Asking for the call of the latest forward leaves the module and its parts as they are."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from attnscope.nn import AcrossHeads, MultiheadAttention

B, T, E, H = 2, 5, 8, 2


class BatchNormOfTokens(nn.BatchNorm1d):
    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = super().forward(x.flatten(0, 1))
        return normed.view_as(x)


class Counting(nn.Module):
    """Counts its forwards in a buffer that it replaces, and in an attribute."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.times = 0

    def forward(self, scores: Tensor) -> Tensor:
        self.seen = self.seen + 1
        self.times += 1
        return scores / self.seen


def spectral(train: bool) -> MultiheadAttention:  # noqa: FBT001
    made = MultiheadAttention(E, H, batch_first=True).train(train)
    parametrizations.spectral_norm(made.out_proj)
    return made


def packed(train: bool) -> MultiheadAttention:  # noqa: FBT001
    made = MultiheadAttention(E, H, batch_first=True).train(train)
    parametrizations.spectral_norm(made, "in_proj_weight")
    return made


def normed(train: bool) -> MultiheadAttention:  # noqa: FBT001
    norm = AcrossHeads(BatchNormOfTokens)
    return MultiheadAttention(E, H, batch_first=True, context_norm=norm).train(train)


def counting(train: bool) -> MultiheadAttention:  # noqa: FBT001
    return MultiheadAttention(E, H, batch_first=True, scores=Counting()).train(train)


def state(made: nn.Module) -> dict[str, Any]:
    return copy.deepcopy(
        {
            **dict(made.named_buffers()),
            **{f"{p}.times": m.times for p, m in made.named_modules() if isinstance(m, Counting)},
        }
    )


@pytest.mark.parametrize(
    ("make", "train"),
    [
        (spectral, True),
        (spectral, False),
        (packed, True),
        (normed, True),
        (normed, False),
        (counting, True),
    ],
)
def test_parts_that_change_themselves_are_left_alone(*, make: Any, train: bool) -> None:
    made, x = make(train), torch.randn(B, T, E, requires_grad=True)
    made(x, x, x)
    output, weights = made(x, x, x, average_attn_weights=False)
    before, same = state(made), list(made.buffers())
    versions = [buffer._version for buffer in same]
    assert torch.allclose(made.last_call.weights(), weights, atol=1e-6)
    after = state(made)
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert torch.equal(torch.as_tensor(after[name]), torch.as_tensor(value)), name
    assert all(a is b for a, b in zip(made.buffers(), same, strict=True))
    assert [buffer._version for buffer in same] == versions
    output.sum().backward()  # nothing that a backward needs was written to
    assert x.grad is not None


def test_buffers_are_copied_in_training_alone() -> None:
    made, x = normed(train=False), torch.randn(B, T, E)
    made(x, x, x)
    assert made._last is not None
    assert not made._last.parts.buffers
    made.train()
    made(x, x, x)
    names = ("running_mean", "running_var", "num_batches_tracked")
    assert set(made._last.parts.buffers) == {f"context_norm.norm.{name}" for name in names}


def test_parts_run_in_the_mode_of_the_forward() -> None:
    made, x = normed(train=True), torch.randn(B, T, E)
    output = made(x, x, x)[0]
    made.eval()
    assert made.last_call.queries == T
    assert not any(child.training for child in made.modules())
    assert not torch.allclose(made(x, x, x)[0], output, atol=1e-3)  # the mode matters


def test_hooks_of_parts_are_called_and_those_of_the_module_are_not() -> None:
    made, x, calls = normed(train=True), torch.randn(B, T, E), []
    assert made.context_norm is not None
    made.register_forward_hook(lambda *_: calls.append("module"))
    made.context_norm.register_forward_hook(lambda *_: calls.append("part"))
    made(x, x, x)
    assert calls == ["part", "module"]
    _ = made.last_call
    assert set(calls[2:]) == {"part"}
