"""What a port is, and what is true about it, said without the tool that is tested with it.

A port is somebody's own code for what another implementation, its original, computes. In a faulty
port one thing is wrong; a sound one is right, however little it looks like the original.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Q = ("q", "raw_scores")
QKV = ("q", "k", "v", "raw_scores")
SCORES = ("raw_scores", "scores")
WEIGHTS = ("scores", "weights")


@dataclass(frozen=True, slots=True)
class Pair:
    """A port, its original, and what both are called with: a tuple or keyword arguments."""

    candidate: Any
    reference: Any
    inputs: tuple[Any, ...] | dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One port and the truth about it.

    name: kebab-case, the original first. reference: what it is a port of, in a few words.
    style: how its author writes. make: builds it, always with the same numbers.
    key: name of the fault; None for a sound port. also: other names of the same arithmetic.
    stages: the stages that may be called the first to differ (a step between two stages can be
    counted to either). call: index of the attention call where it begins, or those that may be
    named; None: no call has it.
    says: words, one of which the explanation has to contain. weights: as `verify` takes it.
    """

    name: str
    reference: str
    style: str
    make: Callable[[], Pair]
    key: str | None = None
    also: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    call: int | tuple[int | None, ...] | None = 0
    says: tuple[str, ...] = ()
    weights: str = "auto"


def run(side: Any, inputs: tuple[Any, ...] | dict[str, Any]) -> Tensor:
    """Return the first tensor that a model or function gives, or its array as a tensor."""
    torch.manual_seed(2)
    if "Array" in str(getattr(side, "__annotations__", {}).get("return")):
        assert isinstance(inputs, tuple)
        inputs = tuple(x.double().numpy() for x in inputs)
    output = side(**inputs) if isinstance(inputs, dict) else side(*inputs)
    if hasattr(output, "keys"):
        output = next(iter(output.values()))
    elif isinstance(output, tuple):
        output = output[0]
    return torch.as_tensor(output)
