"""Compiled parts run eagerly in a check: other lengths would be compiled anew, each of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import attnscope
from tests.checks.small import SelfAttention, noise


def test_nothing_is_compiled() -> None:
    made: list[Any] = []

    def backend(graph: torch.fx.GraphModule, _inputs: list[Tensor]) -> Any:
        made.append(graph)
        return graph.forward

    class Compiled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.compile(SelfAttention(), backend=backend)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.inner(x)
            return out

    model = Compiled().eval()
    report = attnscope.check(model, noise(2, 5, 16), select=["AS101", "AS102", "AS201"])
    assert (report.ok, report.calls, made) == (True, 1, [])
    model(noise(2, 5, 16))
    assert made
