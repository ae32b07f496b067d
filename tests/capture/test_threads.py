"""Work for other threads is named where it is handed on, and nothing stays patched."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

import attnscope


class Pooled(nn.Module):
    """Two attentions, in threads of a pool or one after the other."""

    def __init__(self, *, threads: bool) -> None:
        super().__init__()
        self.threads = threads
        self.parts = nn.ModuleList(nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        if not self.threads:
            return torch.stack([part(x, x, x)[0] for part in self.parts]).sum(0)
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(part, x, x, x) for part in self.parts]
            return torch.stack([each.result()[0] for each in waiting]).sum(0)


def test_work_for_another_thread_is_named_with_its_line() -> None:
    before = threading.Thread.start, ThreadPoolExecutor.submit
    trace = attnscope.trace(Pooled(threads=True), torch.randn(2, 5, 8))
    assert not len(trace)
    (unseen,) = trace.unseen
    assert "another thread" in unseen.reason
    assert "test_threads.py" in unseen.reason
    assert (threading.Thread.start, ThreadPoolExecutor.submit) == before


def test_a_model_without_threads_has_nothing_to_say() -> None:
    trace = attnscope.trace(Pooled(threads=False), torch.randn(2, 5, 8))
    assert len(trace) == 2
    assert not trace.unseen
