"""Accounts for every softmax: part of an attention call, or something else with its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from attnscope.calls.source import Source
from attnscope.calls.trace import Other
from attnscope.capture.functions import SOFTMAXES
from attnscope.capture.provenance import Node

_ROUTES = frozenset("topk sort argsort scatter scatter_add gather kthvalue".split())
_PRODUCTS = frozenset("matmul rmatmul bmm einsum mm baddbmm linear tensordot conv1d conv2d".split())
_ROUTERS = re.compile(r"rout|moe|expert|mixture", re.IGNORECASE)
_DEFORMABLE = re.compile(r"Deformable")
_LOSSES = frozenset("kl_div nll_loss cross_entropy gather_loss".split())


@dataclass(slots=True, eq=False)
class Softmax:
    """One softmax as it happened.

    layer: class name of the module around it. sequence: number of its node in a chain that starts
    at a product of two tensors; None: its input comes from no such product. pooled: whether that
    product was one of weights with values. added: whether its input is a sum of two activations,
    as in additive attention.
    consumers: names of the operations that its output went into, in order.
    """

    name: str
    module: str
    layer: str
    source: Source
    sequence: int | None
    pooled: bool = False
    added: bool = False
    consumers: list[str] = field(default_factory=list)

    def role(self) -> tuple[str, str]:
        """Return what the softmax is for and why, as far as its use tells."""
        used = [name.removesuffix("_") for name in self.consumers]
        if any(name in _LOSSES for name in used):
            return "loss", "its output goes into a loss"
        if "multinomial" in used or (self.name == "log_softmax" and "topk" in used):
            return "sampling", "tokens are drawn from its output, or the best are picked"
        if any(name in _ROUTES for name in used):
            return "router", "the largest of its outputs are picked"
        if _DEFORMABLE.search(self.layer):
            return "deformable", "it weighs sampled points; no product of q and k is made"
        if self.sequence is not None and not self.pooled:
            return "similarity", "products of two tensors are normalised and meet no values"
        return self._by_use(used)

    def _by_use(self, used: list[str]) -> tuple[str, str]:
        """Return the same for one that no product of two tensors led to."""
        weighs = any(name in _PRODUCTS or name == "mul" for name in used)
        if weighs and self.added:
            return "additive", "its scores add up two sides, as in additive attention: no q·k"
        if weighs and _ROUTERS.search(f"{self.module} {self.layer}"):
            return "router", f"it weighs the branches of {self.layer}"
        if any(name in _PRODUCTS for name in used):
            return (
                "pooling",
                "weights that were not seen to come from q·k are multiplied with values",
            )
        if "mul" in used and ("sum" in used or "mean" in used):
            return "pooling", "a weighted sum whose weights were not seen to come from q·k"
        if "mul" in used:
            return "gate", "its output is multiplied onto features"
        return "classifier", "its output is returned or compared"


class Softmaxes:
    """The softmaxes of one recording, and which of them attention calls have claimed."""

    def __init__(self) -> None:
        """Start with none."""
        self._seen: list[Softmax] = []
        self._claimed: set[int] = set()

    def __len__(self) -> int:
        """Return how many there were."""
        return len(self._seen)

    def add(self, softmax: Softmax) -> None:
        """Take note of one."""
        self._seen.append(softmax)

    def claim(self, nodes: Iterable[Node]) -> None:
        """Count the softmaxes among `nodes` as attention."""
        self._claimed.update(node.sequence for node in nodes if is_softmax(node.name))

    def others(self, wanted: Callable[[str], bool]) -> Iterator[Other]:
        """Iterate over those that are no part of a call, in the modules that are `wanted`."""
        for softmax in self._seen:
            if softmax.sequence in self._claimed:
                continue
            if wanted(softmax.module):
                role, reason = softmax.role()
                yield Other(softmax.module, softmax.source, role, reason)


def is_softmax(name: str) -> bool:
    """Return whether an operation is a softmax, also one that changes its input."""
    return name.removesuffix("_") in SOFTMAXES
