"""How much of a call is kept once it is complete: everything, or its numbers alone; and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.evidence import Sizes, Spot
from attnscope.calls.numbers import HeadNumbers
from attnscope.calls.recipe import Recipe
from attnscope.calls.shapes import ShapeRow
from attnscope.capture.fused import FusedEvidence
from attnscope.capture.gradients import Cotangent
from attnscope.capture.moving import map_tensors, move
from attnscope.capture.recorded import RecordedEvidence
from attnscope.errors import ReplayError

__all__ = ["Keep", "NumbersEvidence", "keep_only"]

T = TypeVar("T")

_UNREAD = Recipe(None, normaliser="unknown", unknown=("scale", "mask", "bias", "normaliser"))


@dataclass(frozen=True, slots=True)
class Keep:
    """What to keep of each call ("all", "qkv", "numbers"), and on which device."""

    what: str
    device: torch.device | None = None


def keep_only(call: Call, keep: Keep) -> None:
    """Reduce `call` to what is wanted, and move that to the device where it is wanted.

    With "numbers" the numbers, the replay error, the shapes and the recipe are worked out at once
    and every tensor of the call is let go of. The random state stays as it is.
    """
    if keep.what == "numbers":
        _keep_numbers(call)
    elif keep.device is not None:
        move(call, keep.device)


@dataclass(frozen=True, eq=False)
class NumbersEvidence:
    """What is left of a call of which only numbers are kept. It holds no tensor of the model.

    recipe: its tensors with both queries and keys are replaced by tensors on the meta device, which
        have a shape and no values. numbers, error: None where there were no values to work on.
    """

    sizes: Sizes
    recipe: Recipe
    numbers: HeadNumbers | None
    error: float | None
    rows: tuple[ShapeRow, ...]

    @property
    def by_recipe(self) -> bool:
        """Whether weights follow from the recipe: no, there are no q and k to make them of."""
        return False

    def value(self, name: str) -> Tensor:
        """Raise ReplayError: no tensor was kept."""
        self._refuse(f"reading {name}")

    def spot(self, name: str) -> Spot | None:
        """Return None: no tensor was kept."""
        del name
        return None

    def rerun(self, name: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Raise ReplayError: nothing was kept that could be run again."""
        del q, k, v
        self._refuse(f"running a call again as far as its {name}")

    def gradient(self, name: str) -> Tensor:
        """Raise ReplayError: no gradient was kept."""
        self._refuse(f"reading the gradient of {name}")

    def weight_blocks(self) -> Iterator[Tensor]:
        """Raise ReplayError: no weights were kept."""
        self._refuse("reading the weights")

    def kept_numbers(self) -> HeadNumbers | None:
        """Return the numbers, worked out when the call was made."""
        return self.numbers

    def replay_error(self) -> float | None:
        """Return what the replay gave when the call was made."""
        return self.error

    def shapes(self) -> tuple[ShapeRow, ...]:
        """Return one row a step."""
        return self.rows

    def _refuse(self, doing: str) -> NoReturn:
        raise ReplayError(
            doing, 'keep="numbers" kept no tensors', 'record with keep="qkv" or keep="all"'
        )


def _keep_numbers(call: Call) -> None:
    evidence = call.evidence
    with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
        recipe = _worked_out(lambda: evidence.recipe)
        call.evidence = NumbersEvidence(
            sizes=evidence.sizes,
            recipe=map_tensors(recipe, _small) if recipe is not None else _UNREAD,
            numbers=_worked_out(call.numbers),
            error=_worked_out(evidence.replay_error),
            rows=evidence.shapes(),
        )
    for cotangent in _cotangents(evidence):
        cotangent.release()


def _worked_out(work: Callable[[], T]) -> T | None:
    """Return the result; None where there are no values (meta, fake or mapped tensors)."""
    try:
        return work()
    except (ReplayError, RuntimeError):
        return None


def _cotangents(evidence: Any) -> Iterator[Cotangent]:
    if isinstance(evidence, FusedEvidence):
        yield evidence.cotangent
    elif isinstance(evidence, RecordedEvidence):
        yield from (product.cotangent for product in evidence.products)


def _small(tensor: Tensor) -> Tensor:
    """Return a copy of `tensor`; of one that has both queries and keys only the shape."""
    if sum(size > 1 for size in tensor.shape[-2:]) > 1:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    return tensor.detach().clone()
