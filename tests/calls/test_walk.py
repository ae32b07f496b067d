"""One query of one head: its dot products are those of the kv head that it met."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import attnscope

HEADS, KV_HEADS, DIM = 6, 2, 4
GROUP = HEADS // KV_HEADS


class Grouped(nn.Module):
    """Grouped-query attention whose kv heads are copied by `expand`."""

    def __init__(self, expand: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.expand = expand
        self.q = nn.Linear(8, HEADS * DIM)
        self.k, self.v = (nn.Linear(8, KV_HEADS * DIM) for _ in "kv")

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (-1, DIM)).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        weights = (q @ self.expand(k).mT / DIM**0.5).softmax(-1)
        context: Tensor = weights @ self.expand(v)
        return context


@pytest.mark.parametrize(
    ("expand", "met"),
    [
        (lambda x: x.repeat(1, GROUP, 1, 1), (0, 1, 0, 1, 0, 1)),
        (lambda x: x.repeat_interleave(GROUP, 1), (0, 0, 0, 1, 1, 1)),
    ],
    ids=["tiled", "repeated"],
)
def test_each_head_meets_its_kv_head(
    expand: Callable[[Tensor], Tensor], met: tuple[int, ...]
) -> None:
    trace = attnscope.trace(Grouped(expand), torch.randn(2, 5, 8))
    call = trace[0]
    assert (call.heads, call.kv_heads) == (HEADS, KV_HEADS)
    for head, kv_head in enumerate(met):
        row = trace.walk(0, head, 3, batch=1)
        dots = call.k[1, kv_head] @ call.q[1, head, 3]
        assert [one.dot for one in row.rows] == pytest.approx(dots.tolist(), abs=1e-5)
        assert [one.score for one in row.rows] == pytest.approx((dots / 2).tolist(), abs=1e-5)
        assert row.total == pytest.approx(1.0)
