"""However kv heads are expanded, the recipe knows which one each query head meets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import attnscope

IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "expand behind": lambda x: x[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2),
    "repeat behind": lambda x: x[:, :, None].repeat(1, 1, 2, 1, 1).flatten(1, 2),
}
TILED: dict[str, Callable[[Tensor], Tensor]] = {
    "repeat": lambda x: x.repeat(1, 2, 1, 1),
    "expand before": lambda x: x[:, None].expand(-1, 2, -1, -1, -1).flatten(1, 2),
}


class Grouped(nn.Module):
    def __init__(
        self,
        expanded: Callable[[Tensor], Tensor],
        values: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(24, 32), nn.Linear(24, 32)
        self.expanded, self.values = expanded, values or expanded

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.q(x).view(b, n, 4, 8).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, 2, 8).permute(2, 0, 3, 1, 4)
        k, v = self.expanded(k), self.values(v)
        return ((q @ k.mT * 8**-0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", [*IN_PLACE, *TILED])
def test_the_map_is_that_of_the_copies(way: str) -> None:
    call = attnscope.trace(Grouped({**IN_PLACE, **TILED}[way]), torch.randn(3, 7, 24))[0]
    met = call.recipe.kv_head_of(call.heads, call.kv_heads)
    assert met == ((0, 0, 1, 1) if way in IN_PLACE else (0, 1, 0, 1))
    again = call.recipe.context(call.q, call.k, call.v)
    torch.testing.assert_close(again, call.context())


@pytest.mark.parametrize(
    ("keys", "values"),
    [("repeat_interleave", "repeat"), ("repeat", "expand behind"), ("repeat_interleave", "picked")],
)
def test_keys_and_values_that_are_expanded_otherwise_stay_apart(keys: str, values: str) -> None:
    ways = {**IN_PLACE, **TILED, "picked": lambda x: x[:, [0, 1, 0, 1]]}
    call = attnscope.trace(Grouped(ways[keys], ways[values]), torch.randn(3, 7, 24))[0]
    assert call.k.shape[1] == call.v.shape[1] == call.kv_heads == call.heads
    again = call.recipe.context(call.q, call.k, call.v)
    torch.testing.assert_close(again, call.context())
