"""A fault of attnscope's own is told in the trace; the model never feels it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.capture import gradients, recorder, session
from attnscope.capture.adapters.sdpa import ScaledDotProductAttention
from attnscope.capture.registry import Registry
from tests.capture.promise.models import Block, by_hand, fused, sample, step
from tests.capture.promise.runs import undisturbed


def fault(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a fault of attnscope")


PLACES: dict[str, tuple[Any, str, Callable[..., Tensor]]] = {
    "noting an operation": (recorder.Recorder, "_note", by_hand),
    "recognising": (session.Session, "_attention", by_hand),
    "place": (session, "find_place", by_hand),
    "place of a kernel": (session, "find_place", fused),
    "reading a kernel": (ScaledDotProductAttention, "read", fused),
    "registry": (Registry, "find", by_hand),
    "before a change": (recorder.Recorder, "_before_change", by_hand),
    "gradient": (gradients, "is_batched", by_hand),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_the_model_does_not_feel_it(
    place: tuple[Any, str, Callable[..., Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, attend = place

    def changing(q: Tensor, k: Tensor, v: Tensor, drop: float, *, training: bool) -> Tensor:
        context = attend(q * 1, k, v, drop, training=training) + 0
        context *= 1.5
        return context

    monkeypatch.setattr(owner, name, fault)
    trace = undisturbed(partial(Block, changing), step)
    told = [*trace.notes, *(one.reason for one in trace.unseen)]
    assert any("a fault of attnscope" in one for one in told) or owner is gradients


def test_strange_arguments_of_a_kernel() -> None:
    """What PyTorch accepts is accepted, whether attnscope can read it or not."""

    def attend(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
        mask = torch.zeros(1, 1, 1, 5)
        return torch._C._nn.scaled_dot_product_attention(q, k, v, mask, 0.0, False, scale=None)  # noqa: FBT003

    undisturbed(partial(Block, attend), step)


class Odd(nn.Module):
    """Operations whose arguments are unusual, around numbers that look like scores."""

    def __init__(self, operation: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.operation = operation
        self.out = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Any:
        """Return the operation of two activations."""
        return self.operation(self.out(x), self.out(x * 2))


def into_itself(a: Tensor, b: Tensor) -> Any:
    scores = (a @ b.mT).detach()
    return torch.softmax(scores, -1, out=scores) @ b


def by_name(a: Tensor, b: Tensor) -> Any:
    return torch.matmul(torch.softmax(input=torch.matmul(a, other=b.mT), dim=-1), other=b)


def by_sublists(a: Tensor, b: Tensor) -> Any:
    scores = torch.einsum(a, [0, 1, 2], b, [0, 3, 2], [0, 1, 3])
    return torch.einsum(scores.softmax(-1), [0, 1, 3], b, [0, 3, 2])


def vectors(a: Tensor, b: Tensor) -> Any:
    return (a[0] @ b[0, 0]).softmax(-1) @ b[0]


def dots(a: Tensor, b: Tensor) -> Any:
    return torch.stack([a[0, 0].dot(row) for row in b[0]]).softmax(0) @ b[0]


def mixed(a: Tensor, b: Tensor) -> Any:
    return torch.tensordot((a @ b.mT).sigmoid(), b, dims=([2], [1]))


def named_tuples(a: Tensor, b: Tensor) -> Any:
    return torch.max(a @ b.mT, dim=-1), torch.topk((a @ b.mT).softmax(-1), 2), torch.svd(a @ b.mT)


def masks(a: Tensor, b: Tensor) -> Any:
    scores = a @ b.mT
    scores[scores < 0] = float("-inf")
    scores[:, [0, 1], ...] = 1.0
    scores[:, 1:3, None].sum()
    scores[..., 0] += scores[..., 1]
    return scores.softmax(-1) @ b


def loops(a: Tensor, b: Tensor) -> Any:
    return sum(row for row in a @ b.mT), [n.item() for n in (a @ b.mT)[0, 0]], len(a), 3 in a


def from_numpy(a: Tensor, b: Tensor) -> Any:
    memory = (a @ b.mT).detach().numpy()
    memory *= 2
    return torch.from_numpy(memory).softmax(-1) @ b


def aliases(a: Tensor, b: Tensor) -> Any:
    scores = a @ b.mT
    row = scores[:, 1]
    scores.detach().view(-1).mul_(2.0)
    row += 1
    return scores.softmax(-1) @ b, row.clone()


def set_data(a: Tensor, b: Tensor) -> Any:
    scores = (a @ b.mT).detach()
    scores.data = torch.ones(3, 3)
    other = torch.empty(0).set_(b.detach())  # type: ignore[call-overload]
    other.resize_(2, 5, 16)
    return scores.softmax(-1), other, scores.requires_grad_().sum()


OPERATIONS = [
    into_itself, by_name, by_sublists, vectors, dots, mixed, named_tuples, masks, loops,
    from_numpy, aliases, set_data,
]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_unusual_arguments(operation: Callable[[Tensor, Tensor], Any], grad: bool) -> None:  # noqa: FBT001
    def run(model: nn.Module) -> Any:
        with torch.set_grad_enabled(grad):
            return model(sample())

    undisturbed(partial(Odd, operation), run)
