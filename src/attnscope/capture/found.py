"""What the recorder hands over when it notices attention, and the answer it gets back."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attnscope.capture.provenance import Node, Operand, Output


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Attention, just noticed.

    weights: their place in their chain; value: v; node and output: the product of both;
    weights_left: whether the weights are its left side; last: the end of what one function does,
    where that is more than the product; output is then what it made.
    """

    weights: Output
    value: Operand
    node: Node
    output: Tensor
    weights_left: bool
    last: Node | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was made of a find.

    open: number of a call whose rows are still to be divided by their sums; None: it is complete.
    """

    open: int | None = None
