"""Why a kernel refused its operands: what it was given, read from where it raised."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnscope.calls.source import Source
from attnscope.capture.step import Step
from attnscope.checks.lines import line_of

__all__ = ["Strides", "View", "refused_strides", "refused_view"]

_REFUSED = "No available kernel"
_REFUSED_VIEW = "view size is not compatible"
_KERNEL = "scaled_dot_product_attention"


@dataclass(frozen=True, slots=True)
class Strides:
    """An operand whose last axis isn't dense. name: query, key or value; source: the call."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    source: Source | None


def refused_strides(error: BaseException) -> Strides | None:
    """Return the operand whose strides no fused kernel takes, where that is why a kernel raised."""
    if _REFUSED not in str(error):
        return None
    for step in _steps(error, _KERNEL):
        for name, tensor in zip(("query", "key", "value"), _operands(step), strict=False):
            if tensor.stride(-1) != 1:
                shape = tuple(tensor.shape)
                return Strides(name, shape, tuple(tensor.stride()), line_of(error))
    return None


@dataclass(frozen=True, slots=True)
class View:
    """A view that was refused. wanted: the sizes as they were asked for."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    wanted: str
    source: Source | None


def refused_view(error: BaseException) -> View | None:
    """Return the view of a tensor that lies apart in memory, where that is why a forward raised."""
    if _REFUSED_VIEW not in str(error):
        return None
    for step in _steps(error, "view"):
        tensor, *wanted = step.args
        whole = len(wanted) == 1 and not isinstance(wanted[0], int)
        sizes = str(tuple(wanted[0] if whole else wanted))
        return View(tuple(tensor.shape), tuple(tensor.stride()), sizes, line_of(error))
    return None


def _steps(error: BaseException, name: str) -> Iterator[Step]:
    """Iterate over the calls of a function that an exception went through, outermost first."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        step = frame.f_locals.get("step")
        if isinstance(step, Step) and step.name == name:
            yield step


def _operands(step: Step) -> list[Tensor]:
    named = [step.kwargs.get(name) for name in ("query", "key", "value")]
    return [each for each in (*step.args[:3], *named) if isinstance(each, Tensor)]
