"""Attention that is one function: what an adapter says about such a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from attnscope.calls.held import Held
from attnscope.calls.program import RandomState
from attnscope.calls.recipe import Recipe

Axes = tuple[str, ...]
"""Names of a tensor's axes, of "batch", "heads", "tokens", "dim", in the kernel's own order.

Axes of one name are joined in order; a name that is absent stands for an axis of size 1.
"""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """The arguments of one fused attention in words that do not depend on the kernel.

    q, k, v, output: the very tensors, in the kernel's own layout `axes`; batch and heads of q, k, v
        may be 1 where the kernel broadcasts them. A kernel that projects by itself, or that works
        on nested tensors, has none: then they are made for the purpose (nested ones padded).
    read_recipe: reads the recipe of the arguments, mask converted to True = may attend. It looks at
        every entry of a mask, so it is called when somebody asks.
    held: every other tensor that `read_recipe`, `scores` and `finish` read, to be copied before it
        is changed in place.
    dropout: probability with which this call dropped weights.
    output_axes: where they differ from `axes`; None: the same.
    random: state of the generator before the call, where it drew from one.
    finish: what the kernel did to the context (batch, heads, queries, value_dim) to make `output`,
        None: nothing.
    scores: what enters the softmax (batch, heads, queries, keys), from canonical q and k, where the
        recipe alone can't say (its `unknown` names why).
    """

    kind: str
    q: Tensor
    k: Tensor
    v: Tensor
    output: Tensor
    read_recipe: Callable[[], Recipe]
    held: tuple[Held, ...] = ()
    dropout: float = 0.0
    axes: Axes = ("batch", "heads", "tokens", "dim")
    output_axes: Axes | None = None
    random: RandomState | None = None
    finish: Callable[[Tensor], Tensor] | None = None
    scores: Callable[[Tensor, Tensor], Tensor] | None = None

    @property
    def recipe(self) -> Recipe:
        """The recipe, read anew each time."""
        return self.read_recipe()


class Adapter(Protocol):
    """Knows one kernel family. Stateless; one file each in `capture/adapters`."""

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the functions that it reads, as a function mode sees them, if they are there."""

    def read(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> tuple[KernelCall, ...]:
        """Return the attention in this call of `function`; none where it can't be read.

        Called after `function` returned `output`, with no interceptor active.
        """
