"""One query of one head: its dot products are those of the kv head that it met."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import attnscope

HEADS, KV_HEADS, LENGTH, DIM = 6, 2, 5, 4


def tiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Kv heads 0 1 0 1 0 1."""
    k, v = (x.repeat(1, HEADS // KV_HEADS, 1, 1) for x in (k, v))
    return (q @ k.mT / DIM**0.5).softmax(-1) @ v


def repeated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Kv heads 0 0 0 1 1 1."""
    k, v = (x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, v))
    return (q @ k.mT / DIM**0.5).softmax(-1) @ v


@pytest.mark.parametrize(("attend", "met"), [(tiled, (0, 1) * 3), (repeated, (0,) * 3 + (1,) * 3)])
def test_each_head_meets_its_kv_head(attend: Callable[..., Tensor], met: tuple[int, ...]) -> None:
    q = torch.randn(2, HEADS, LENGTH, DIM)
    k, v = (torch.randn(2, KV_HEADS, LENGTH, DIM) for _ in "kv")
    trace = attnscope.trace(attend, q, k, v)
    assert trace[0].kv_heads == KV_HEADS
    for head, kv_head in enumerate(met):
        row = trace.walk(0, head, 3, batch=1)
        dots = k[1, kv_head].double() @ q[1, head, 3].double()
        assert [one.dot for one in row.rows] == pytest.approx(dots.tolist())
        assert [one.score for one in row.rows] == pytest.approx((dots / 2).tolist(), abs=1e-5)
        assert row.total == pytest.approx(1.0)
