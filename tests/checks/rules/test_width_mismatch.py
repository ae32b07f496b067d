"""AS105: what a forward that raises was about, and features that no head takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.errors import TargetError
from tests.checks.marks import marked
from tests.checks.rules.by_scores import ByHand, features, found, line_of, only


class Cross(nn.Module):
    def __init__(self, keys: int = 24, context: int = 20) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(24, 24), nn.Linear(context, keys), nn.Linear(20, 24)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = (
            t.unflatten(-1, (4, -1)).transpose(1, 2)
            for t in (self.q(x), self.k(memory), self.v(memory))  # projections
        )
        scores = q @ k.mT * q.shape[-1] ** -0.5  # product
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)  # type: ignore[no-any-return]


class Masked(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        mask = torch.zeros(q.shape[0], 1, 5, 5)
        return q @ k.mT + mask  # mask


class Sliced(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, 24 // heads
        self.q, self.k, self.v = (nn.Linear(24, 24) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        done = []
        for head in range(self.heads):
            part = slice(head * self.size, (head + 1) * self.size)
            q, k, v = self.q(x)[..., part], self.k(x)[..., part], self.v(x)[..., part]
            done.append((q @ k.mT * self.size**-0.5).softmax(-1) @ v)
        return torch.cat(done, -1)


class SlicedOnce(Sliced):
    def forward(self, x: Tensor) -> Tensor:
        whole, done = (self.q(x), self.k(x), self.v(x)), []
        for head in range(self.heads):
            part = slice(head * self.size, (head + 1) * self.size)
            q, k, v = (each[..., part] for each in whole)
            done.append((q @ k.mT * self.size**-0.5).softmax(-1) @ v)
        return torch.cat(done, -1)


MEMORY = {"x": features(), "memory": features(length=11, width=20)}


@pytest.mark.parametrize(
    ("model", "inputs", "kind", "mark"),
    [
        (Cross(keys=16), MEMORY, "q-k-width", "product"),
        (Cross(context=24), MEMORY, "projection-width", "projections"),
        (Masked(), features(), "mask-shape", "mask"),
    ],
)
def test_a_forward_that_raises_is_explained(model: Any, inputs: Any, kind: str, mark: str) -> None:
    finding = only("AS105", model, inputs)
    assert (finding.severity, finding.evidence["kind"]) == ("error", kind)
    assert line_of(finding) == marked(__file__, mark)


def test_names_are_told_with_their_shapes() -> None:
    finding = only("AS105", Cross(keys=16), MEMORY)
    assert "q (3, 4, 7, 6)" in finding.message
    assert "k (3, 4, 11, 4)" in finding.message


def test_a_width_that_the_heads_do_not_divide() -> None:
    finding = only("AS105", SlicedOnce(5), features())
    assert finding.evidence["unused_features"] == [20, 21, 22, 23]
    assert not found("AS105", SlicedOnce(4), features())


def test_another_error_keeps_its_own_words() -> None:
    class Wrong(ByHand):
        def weights(self, scores: Tensor) -> Tensor:
            raise KeyError(f"none of these {len(scores)}")

    with pytest.raises(TargetError, match="none of these"):
        attnscope.check(Wrong(), features(), select=["AS105"])


class OtherKeys(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(24, 3, kdim=7, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x)[0]  # kdim


def test_what_torch_asserts_of_its_projections_is_explained() -> None:
    finding = only("AS105", OtherKeys(), features())
    assert line_of(finding) == marked(__file__, "kdim")
    assert "made for 7 features and is given 24" in finding.message


def test_attention_that_is_dropped_has_no_features_over() -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = nn.MultiheadAttention(24, 4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            self.read(x, x, x)
            return x * 2.0

    assert not found("AS105", Dropped(), features())


class Neighbours(nn.Module):
    """Keys are windows of a convolution's result, of which every other frame is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Conv1d(24, 24, 1) for _ in range(3))

    def windows(self, x: Tensor) -> Tensor:
        around = nn.functional.pad(x, (2, 2)).unfold(2, 5, 1)[..., ::2]
        return around.reshape(x.shape[0], 4, 6, -1, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.mT
        q = self.q(x).view(x.shape[0], 4, 6, -1, 1)
        k, v = self.windows(self.k(x)), self.windows(self.v(x))
        weights = ((q * k).sum(2) / 6**0.5).softmax(-1)
        return (weights[:, :, None] * v).sum(-1).reshape(x.shape).mT  # type: ignore[no-any-return]


class Chomped(nn.Module):
    """Keys and queries come from causal convolutions, whose last frames are cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = (nn.Conv1d(24, 24, 3, padding=2) for _ in range(2))
        self.v = nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k = (part(x.mT)[..., :-2].unflatten(1, (4, -1)).mT for part in (self.q, self.k))
        v = self.v(x).unflatten(-1, (4, -1)).transpose(1, 2)
        weights = (q @ k.mT * 6**-0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", [Neighbours, Chomped])
def test_frames_that_a_convolution_made_are_no_features(kind: type[nn.Module]) -> None:
    assert not found("AS105", kind(), features())
