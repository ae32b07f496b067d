"""The probe that changes a whole sequence: what it sees, and that it leaves nothing behind."""

from __future__ import annotations

from torch import Tensor, nn

from attnscope.checks.probes.memory_changed import memory_changed
from attnscope.checks.subject.subject import Subject
from tests.checks.rules.by_scores import features


class Layer(nn.Module):
    def __init__(self, *, reads: bool) -> None:
        super().__init__()
        self.cross, self.reads = nn.MultiheadAttention(24, 3, batch_first=True), reads

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        read = memory if self.reads else x
        return x + self.cross(x, read, read, need_weights=False)[0]  # type: ignore[no-any-return]


def changes(*, reads: bool) -> tuple[Subject, dict[str, bool]]:
    given = {"x": features(), "memory": features(length=11)}
    subject = Subject(Layer(reads=reads), given)
    return subject, {each.stream.name: each.is_idle for each in memory_changed(subject)}


def test_a_memory_that_is_read_is_not_idle() -> None:
    assert changes(reads=True)[1] == {"x": False, "memory": False}


def test_a_memory_that_is_not_read_is_idle() -> None:
    assert changes(reads=False)[1] == {"x": False, "memory": True}


def test_it_puts_the_model_back() -> None:

    subject, _ = changes(reads=False)
    assert subject.model is not None
    assert all(not module._forward_pre_hooks for module in subject.model.modules())
    assert subject.model.training
