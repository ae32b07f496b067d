"""Which parameters, and which rows of them, made a q, k or v.

A fused projection holds q, k and v in one tensor: one after the other, by turns in each head, or by
groups of heads. Instead of knowing every packing, the layout operations that a recorded tensor went
through are run again on the numbers of the features; what arrives says which rows were used.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnscope.calls.call import Call
from attnscope.calls.program import map_leaves
from attnscope.capture.chunked import ChunkedEvidence
from attnscope.capture.fused import FusedEvidence
from attnscope.capture.recorded import RecordedEvidence
from attnscope.capture.trail import LAYOUT, Trail, Unfollowed

__all__ = ["Made", "made_by", "trail_of"]

_NOWHERE = -1
_MOST = 1 << 32  # features of one projection, at most

_CHANGE_PRECISION = frozenset(
    "contiguous clone detach data to type type_as float half bfloat16 double cpu cuda".split()
)
_JOINS = frozenset({torch.cat, torch.stack})
_FILLED = frozenset("new_zeros new_ones new_full zeros_like ones_like full_like".split())
_EMPTY = frozenset({"new_empty", "empty_like"})
"""Take another tensor's type alone; an empty one is filled later, out of the trail's sight."""
_PROPERTIES = frozenset({"T", "mT", "H", "mH"})


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """Features that one projection made.

    step: the projection; rows: which of its features arrived; exact: whether all steps between
    could be followed, else `rows` may hold more than did.
    """

    step: Trail
    rows: Tensor
    exact: bool

    @property
    def features(self) -> int:
        """Features that the projection makes in all."""
        return prod(self.step.shape[axis] for axis in self.step.features)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that took part; none where only a view of one did."""
        return self.step.parameters


def trail_of(call: Call, name: str) -> Trail | None:
    """Return how the `q`, `k` or `v` of a call came about, where that was recorded."""
    evidence: Any = call.evidence
    if isinstance(evidence, ChunkedEvidence):
        evidence = evidence.parts[0]
    if isinstance(evidence, FusedEvidence):
        operands = {"q": evidence.q, "k": evidence.k, "v": evidence.v}
        return operands[name].trail
    if not isinstance(evidence, RecordedEvidence):
        return None
    if name == "v":
        return evidence.products[0].value.trail
    return (evidence.q_operand if name == "q" else evidence.k_operand).trail


def made_by(trail: Trail | None) -> list[Made]:
    """Return the projections that a tensor's features come from, nearest ones alone."""
    if trail is None:
        return []
    reader = _Reader()
    numbers = reader.numbers(trail)
    found = numbers[numbers >= 0].unique()
    return [
        Made(step, found[found // _MOST == index] % _MOST, reader.exact)
        for index, step in enumerate(reader.steps)
        if bool((found // _MOST == index).any())
    ]


class _Reader:
    """Runs trails on the numbers of the features; -1 stands for what no projection made."""

    def __init__(self) -> None:
        self.steps: list[Trail] = []
        self.exact = True
        self._known: dict[int, Tensor] = {}

    def numbers(self, trail: Trail) -> Tensor:
        """Return for each entry of a trail's tensor the feature that it is, or is made from."""
        known = self._known.get(id(trail))
        if known is None:
            known = self._known[id(trail)] = self._numbers(trail)
        return known

    def _numbers(self, trail: Trail) -> Tensor:
        if trail.features:
            return self._begin(trail)
        if trail.is_origin:
            return _nowhere(trail)
        function = _layout_function(trail.name.removesuffix("_"))
        if function is not None:
            try:
                return self._rearranged(function, trail)
            except (RuntimeError, TypeError, ValueError, IndexError):
                pass  # an argument that the trail doesn't hold, such as a table of indices
        return self._mixed(trail)

    def _begin(self, trail: Trail) -> Tensor:
        sizes = [n if axis in trail.features else 1 for axis, n in enumerate(trail.shape)]
        start = len(self.steps) * _MOST
        self.steps.append(trail)
        return torch.arange(start, start + prod(sizes)).view(sizes).expand(trail.shape)

    def _rearranged(self, function: Callable[..., Any], trail: Trail) -> Tensor:
        leaf = self._piece if function in _JOINS else self._leaf
        args, kwargs = map_leaves((trail.args, trail.kwargs or {}), leaf)
        result = function(*args, **kwargs)
        if isinstance(result, (tuple, list)):
            result = result[trail.output_index]
        if not isinstance(result, Tensor) or tuple(result.shape) != trail.shape:
            raise TypeError(trail.name)
        return result

    def _mixed(self, trail: Trail) -> Tensor:
        """Return the numbers after arithmetic: those of the operand that a projection made."""
        if trail.name in _FILLED:
            return _nowhere(trail)
        for before in _trails((trail.args, trail.kwargs)):
            numbers = self.numbers(before)
            if not bool((numbers >= 0).any()):
                continue
            if trail.name not in _EMPTY and _fits(numbers.shape, trail.shape):
                return numbers.broadcast_to(trail.shape)
            self.exact = False  # which of them is where can't be told
            return numbers
        return _nowhere(trail)

    def _leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, Trail):
            return self.numbers(leaf)
        if isinstance(leaf, Unfollowed):
            if leaf.value is None:
                raise TypeError(leaf)
            return leaf.value
        return leaf

    def _piece(self, leaf: Any) -> Any:
        """Return the numbers of one of several pieces; a parameter beside them has none."""
        if isinstance(leaf, Unfollowed) and leaf.shape:
            return torch.full(leaf.shape, _NOWHERE)
        return self._leaf(leaf)


def _nowhere(trail: Trail) -> Tensor:
    return torch.full((1,) * len(trail.shape), _NOWHERE).expand(trail.shape)


def _layout_function(name: str) -> Callable[..., Any] | None:
    if name in _CHANGE_PRECISION:
        return lambda tensor, *_args, **_kwargs: tensor
    if name == "getitem":
        return operator.getitem
    if name == "pad":
        return lambda tensor, pad, *_args, **_kwargs: F.pad(tensor, tuple(pad), value=_NOWHERE)
    if name in {"cat", "concat", "stack"}:
        return torch.stack if name == "stack" else torch.cat
    if name == "view":
        return torch.Tensor.reshape  # copies that were expanded here need not be in the model
    if name in _PROPERTIES:
        return operator.attrgetter(name)
    return getattr(torch.Tensor, name, None) if name in LAYOUT else None


def _fits(shape: torch.Size, wanted: tuple[int, ...]) -> bool:
    """Return whether a tensor of `shape` can be broadcast to `wanted`."""
    if len(shape) > len(wanted):
        return False
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return all(size in (1, whole) for size, whole in pairs)


def _trails(tree: Any) -> Iterator[Trail]:
    if isinstance(tree, Trail):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _trails(item)
    elif isinstance(tree, dict):
        yield from _trails(tuple(tree.values()))
