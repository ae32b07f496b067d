"""Features that are computed apart: rotary pieces of latent attention, and packed weights."""

# Calling a module of torch returns Any; people return it as it is.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.explain.llamas import HandWritten, with_faults
from tests.explain.observed import explained, observe


class Latent(HandWritten):
    """Half of each head is turned; its keys are one head, which all heads share."""

    heads, size = 3, 8
    base, interleaved = 10000.0, False

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.q, self.k = nn.Linear(24, 2 * 3 * 8), nn.Linear(24, 3 * 8)
        self.shared, self.v, self.o = nn.Linear(24, 8), nn.Linear(24, 48), nn.Linear(48, 24)
        self.inputs = {"x": torch.randn(2, 7, 24)}

    def turned(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[2])[:, None] * self.base ** (-torch.arange(0, 8, 2) / 8)
        cos, sin = angles.cos(), angles.sin()
        if self.interleaved:
            first, second = x[..., ::2], x[..., 1::2]
        else:
            first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.split(self.q(x)).chunk(2, -1)
        q = torch.cat((left, self.turned(right)), -1)
        shared = self.turned(self.shared(x)[:, None]).expand(-1, self.heads, -1, -1)
        k = torch.cat((self.split(self.k(x)), shared), -1)
        context = F.scaled_dot_product_attention(q, k, self.split(self.v(x)))
        return self.o(context.transpose(1, 2).flatten(2))


def twice(self: Latent, x: Tensor) -> Tensor:
    return Latent.turned(self, Latent.turned(self, x))


@pytest.mark.parametrize("stage", ["q", "k"])
@pytest.mark.parametrize(
    ("key", "faults", "base", "interleaved", "says"),
    [
        ("rotary-base", {}, 500.0, False, ("500", "10000")),
        ("rotary-base", {}, 500.0, True, ("500", "10000")),
        ("rotary-missing", {"turned": lambda _, x: x}, 1e4, False, ("no rotary",)),
        ("rotary-twice", {"turned": twice}, 1e4, False, ("doubled",)),
    ],
)
def test_the_rotation_of_a_piece_is_read(
    key: str, faults: Any, base: float, says: tuple[str, ...], stage: str, *, interleaved: bool
) -> None:
    reference = Latent()
    reference.interleaved = interleaved
    module: Any = with_faults(reference, **faults)
    module.base = base
    inputs = reference.inputs
    found = explained(observe(module, **inputs), observe(reference, **inputs), stage)
    assert found is not None
    assert found.key == key, found.text
    assert all(word in found.text for word in says), found.text


def test_what_is_turned_already_is_not_called_turned_alone() -> None:
    reference, module = Latent(), Latent()

    def odd(x: Tensor) -> Tensor:
        """Turn by angles that no rotation of this form has, and stretch one feature."""
        return Latent.turned(reference, x) * torch.linspace(1, 2, 8)

    reference.turned = odd  # type: ignore[method-assign]
    module.turned = lambda x: Latent.turned(module, odd(x))  # type: ignore[method-assign]
    inputs = reference.inputs
    found = explained(observe(module, **inputs), observe(reference, **inputs), "q")
    assert found is None or found.key != "rotary-extra"


class Packed(HandWritten):
    """Queries of one length, keys and values of another, from one packed weight."""

    order = (0, 1, 2)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.weight = nn.Parameter(torch.randn(72, 24) * 0.2)
        self.o = nn.Linear(24, 24)
        self.inputs = {"x": torch.randn(2, 7, 24), "memory": torch.randn(2, 4, 24)}

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        weights = self.weight.chunk(3)
        made = [
            F.linear(each, weights[at])
            for each, at in zip((x, memory, memory), self.order, strict=True)
        ]
        q, k, v = (each.unflatten(-1, (3, 8)).transpose(1, 2) for each in made)
        context = F.scaled_dot_product_attention(q, k, v)
        return self.o(context.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("order", "says"),
    [((1, 2, 0), "[v | q | k]"), ((2, 0, 1), "[k | v | q]"), ((1, 0, 2), "[k | q | v]")],
)
def test_packed_weights_in_another_order_are_told_across_lengths(
    order: tuple[int, ...], says: str
) -> None:
    reference, module = Packed(), Packed()
    module.order = order  # type: ignore[assignment]
    inputs = reference.inputs
    found = explained(observe(module, **inputs), observe(reference, **inputs), "q")
    assert found is not None
    assert found.key == "split-order", found.text
    assert says in found.text
