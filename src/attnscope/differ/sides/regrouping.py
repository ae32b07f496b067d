"""One attention whose axes are grouped otherwise than its partner's.

Heads may stand in the batch, or a group of query heads along the queries, as in decoding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe

__all__ = ["Regrouping", "regrouping"]

Shape = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Regrouping:
    """From a call's own batch, heads, queries and keys to those of its partner, and back.

    own, wanted: both shapes. stacked: the kv heads stay as they are, and the heads of a group are
    taken out of the queries.
    """

    own: Shape
    wanted: Shape
    stacked: bool

    def read(self, name: str, tensor: Tensor) -> Tensor:
        """Return a tensor of the call with its partner's axes."""
        return self._turn(name, tensor, self.wanted)

    def write(self, name: str, tensor: Tensor) -> Tensor:
        """Return a tensor of the partner with the call's axes."""
        return self._turn(name, tensor, self.own)

    def _turn(self, name: str, tensor: Tensor, shape: Shape) -> Tensor:
        if name in {"k", "v"}:
            return tensor if self.stacked else tensor.reshape(*shape[:2], *tensor.shape[2:])
        return tensor.reshape(*shape[:3], tensor.shape[-1])

    def recipe(self, recipe: Recipe) -> Recipe:
        """Return the recipe with its mask, bias and sinks on the partner's axes."""
        batch, heads, queries, keys = self.own

        def spread(tensor: Tensor) -> Tensor:
            whole = tensor.expand(batch, heads, queries, tensor.shape[-1])
            return self.read("scores", whole)

        mask = recipe.mask
        if mask.hides:
            mask = Mask.from_tensor(spread(mask.dense(queries, keys)))
        group = self.wanted[1] // heads if self.stacked else recipe.group
        return replace(
            recipe,
            mask=mask,
            bias=spread(recipe.bias) if recipe.bias is not None else None,
            sinks=spread(recipe.sinks) if recipe.sinks is not None else None,
            group=group,
            expansion="expand" if group > 1 else recipe.expansion,
        )


def regrouping(call: Call, wanted: Shape, kv_heads: int) -> Regrouping | None:
    """Return how a call's axes become those of its partner; None: they can't, or need not."""
    own = (call.batch, call.heads, call.queries, call.keys)
    if own == wanted or call.keys != wanted[3] or call.heads != call.kv_heads:
        return None
    rows = own[0] * own[1] * own[2]
    if rows != wanted[0] * wanted[1] * wanted[2]:
        return None
    if own[2] == wanted[2] and 1 in own[:2]:
        return Regrouping(own, wanted, stacked=False)
    if own[:2] == (wanted[0], kv_heads):
        return Regrouping(own, wanted, stacked=True)
    return None
