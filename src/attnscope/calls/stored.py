"""Evidence of a call that was read from disk: the same face, tensors read when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.blobs import StoredTensor, TensorReader
from attnscope.calls.encoding import decode
from attnscope.calls.evidence import Evidence, Sizes
from attnscope.calls.numbers import HeadNumbers
from attnscope.calls.recipe import Recipe
from attnscope.calls.shapes import ShapeRow
from attnscope.calls.source import Source
from attnscope.errors import ReplayError, StoreError

__all__ = ["CallRecord", "Missing", "StoredEvidence", "derive", "derive_gradient"]


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a value is not there, in two of the three parts of an error."""

    found: str
    todo: str


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call as the manifest holds it.

    tensors, gradients: those that are stored, by name. missing, missing_gradients: why others are
    not. What is in neither of the two is derived from the recipe and q, k, v.
    fill: the score of every hidden key, where the model had another number than -inf.
    recipe, shapes: plain data, decoded when somebody asks.
    numbers: None where there are no weights to take them from.
    """

    index: int
    module: str
    source: Source
    kind: str
    step: int
    recomputed: bool
    sizes: Sizes
    recipe: Any
    shapes: Any
    tensors: dict[str, StoredTensor]
    missing: dict[str, Missing]
    gradients: dict[str, StoredTensor]
    missing_gradients: dict[str, Missing]
    fill: float | None
    numbers: HeadNumbers | None
    replay_error: float | None


@dataclass(frozen=True, slots=True)
class _Rows:
    rows: tuple[ShapeRow, ...] = field(default=())


@dataclass(eq=False)
class StoredEvidence(Evidence):
    """What the manifest says of one call, and the files that hold its tensors."""

    record: CallRecord
    reader: TensorReader

    @property
    def sizes(self) -> Sizes:
        """Sizes in the canonical layout."""
        return self.record.sizes

    @property
    def by_recipe(self) -> bool:
        """Whether scores and weights follow from the recipe alone."""
        record = self.record
        apart = {*record.tensors, *record.missing} & {"scores", "weights"}
        return not apart and record.fill is None

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe; a part whose values were not kept is a tensor on the meta device."""
        recipe: Recipe = self._decoded(Recipe, self.record.recipe)
        return recipe

    def _decoded(self, kind: type[Any], data: Any) -> Any:
        try:
            return decode(kind, data, self.reader.decode)
        except ValueError as error:
            raise StoreError(
                f"reading call {self.record.index} of the trace {self.reader.folder}",
                f"manifest.json is damaged: {error}",
                "copy the folder again from where it came, or trace the model and save again",
            ) from error

    def value(self, name: str) -> Tensor:
        """Return one tensor: read where it was stored, else derived from q, k and the recipe."""
        with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
            stored = self.record.tensors.get(name)
            if stored is not None:
                return self.reader.read(stored)
            self._refuse(name, self.record.missing.get(name), name)
            if name == "weights" and not self.by_recipe:
                return self.recipe.normalise(self.value("scores"))
            return derive(self.recipe, name, self.value("q"), self.value("k"), self.record.fill)

    def gradient(self, name: str) -> Tensor:
        """Return one gradient: read where it was stored, else derived from that of the context."""
        with torch._C.DisableTorchFunction():  # noqa: SLF001
            stored = self.record.gradients.get(name)
            if stored is not None:
                return self.reader.read(stored)
            self._refuse(f"the gradient of {name}", self.record.missing_gradients.get(name), name)
            return derive_gradient(self.recipe, name, self.value, self.gradient("context"))

    def _refuse(self, what: str, missing: Missing | None, name: str) -> None:
        if missing is None and name not in {"scores", "weights"}:
            missing = Missing("the trace was saved without it", "save the trace again")
        if missing is not None:
            doing = f"reading {what} of call {self.record.index} from {self.reader.folder}"
            raise ReplayError(doing, missing.found, missing.todo)

    def weight_blocks(self) -> Iterator[Tensor]:
        """Yield the weights by blocks of queries where they are derived, else in one piece."""
        if not self.by_recipe:
            yield self.value("weights")
            return
        with torch._C.DisableTorchFunction():  # noqa: SLF001
            q, k = self.value("q"), self.value("k")
        yield from self.recipe.weight_blocks(q, k)

    def kept_numbers(self) -> HeadNumbers | None:
        """Return the numbers of the saved call."""
        return self.record.numbers

    def replay_error(self) -> float | None:
        """Return what the replay of the saved call gave."""
        return self.record.replay_error

    def shapes(self) -> tuple[ShapeRow, ...]:
        """Return one row a step."""
        rows: _Rows = self._decoded(_Rows, {"rows": self.record.shapes})
        return rows.rows


def derive(recipe: Recipe, name: str, q: Tensor, k: Tensor, fill: float | None) -> Tensor:
    """Return scores or weights as the recipe makes them of q and k.

    fill: the score of hidden keys; None: -inf. It matters to weights only in rows that see nothing.
    """
    if name == "weights" and fill is None:
        return recipe.weights(q, k)
    scores = recipe.scores(q, k)
    if fill is not None:
        scores = scores.masked_fill(scores.isneginf(), fill)
    return scores if name == "scores" else recipe.normalise(scores)


def derive_gradient(
    recipe: Recipe, name: str, value: Callable[[str], Tensor], cotangent: Tensor
) -> Tensor:
    """Return the gradient of "weights" or "scores" that follows from that of the context.

    Only where the context is `weights @ v` and weights follow from scores, dropout and all.
    value: hands out scores and v by name.
    """
    with torch.no_grad():
        v = value("v")
        met = recipe.kv_head_of(cotangent.shape[1], v.shape[1])
        values = v if met == tuple(range(v.shape[1])) else v[:, list(met)]
        of_weights = cotangent.to(values.dtype) @ values.mT
        scores = value("scores") if name == "scores" else None
    if scores is None:
        return of_weights
    with torch.inference_mode(mode=False), torch.enable_grad():
        leaf = scores.clone().requires_grad_()
        weights = recipe.normalise(leaf)
        (gradient,) = torch.autograd.grad(weights, [leaf], of_weights.to(weights.dtype))
    return gradient
