"""What of a call goes to disk: what can't be derived again, equal to what the call shows.

q, k, v and context are stored, and their gradients. Scores and weights (and their gradients) are
derived after loading where the recipe gives the same numbers up to the rounding of a dot product,
and stored where it does not: so no matrix of queries × keys is on disk where none is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnscope.calls.blobs import StoredTensor, TensorWriter, why_not
from attnscope.calls.call import Call
from attnscope.calls.encoding import encode
from attnscope.calls.evidence import Evidence
from attnscope.calls.numbers import HeadNumbers
from attnscope.calls.recipe import Recipe
from attnscope.calls.stored import CallRecord, Missing, derive, derive_gradient
from attnscope.calls.tolerance import rounding
from attnscope.errors import ReplayError

__all__ = ["pack"]

_LINEAR = ("q", "k", "v", "context")
_MATRICES = ("scores", "weights")
_RUN_AGAIN = "trace the model again with real tensors of a type that can be stored"


def pack(call: Call, writer: TensorWriter) -> CallRecord:
    """Store what has to be stored of `call` and return its record."""
    packing = _Packing(call.evidence, writer)
    with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
        packing.values()
        packing.gradients()
        return CallRecord(
            index=call.index,
            module=call.module,
            source=call.source,
            kind=call.kind,
            step=call.step,
            recomputed=call.recomputed,
            sizes=call.evidence.sizes,
            recipe=encode(_recipe(call), writer.encode),
            shapes=encode(call.shapes().rows),
            tensors=packing.kept,
            missing=packing.missing,
            gradients=packing.kept_gradients,
            missing_gradients=packing.missing_gradients,
            fill=packing.fill,
            numbers=_numbers(call, packing),
            replay_error=_replay_error(call),
        )


@dataclass(slots=True)
class _Packing:
    evidence: Evidence
    writer: TensorWriter
    kept: dict[str, StoredTensor] = field(default_factory=dict)
    missing: dict[str, Missing] = field(default_factory=dict)
    kept_gradients: dict[str, StoredTensor] = field(default_factory=dict)
    missing_gradients: dict[str, Missing] = field(default_factory=dict)
    fill: float | None = None

    def values(self) -> None:
        """Store q, k, v, context, and scores and weights where the recipe does not give them."""
        for name in _LINEAR:
            self._keep(name, self.evidence.value, self.kept, self.missing)
        if {"q", "k"} & self.missing.keys():
            reason = self.missing.get("q") or self.missing["k"]
            self.missing.update(dict.fromkeys(_MATRICES, reason))
            return
        if self.evidence.by_recipe:
            return
        scores = self._unless_derived("scores")
        self._unless_derived("weights", scores)

    def _unless_derived(self, name: str, scores: Tensor | None = None) -> Tensor | None:
        """Store one matrix unless it follows from what is stored; return it."""
        actual = _read(self.evidence.value, name, self.missing)
        if actual is None:
            return None
        derived = self._derived(name, scores)
        if name == "scores" and derived is not None:
            self.fill = _fill_of(derived, actual)
            if self.fill is not None:
                derived = derived.masked_fill(derived.isneginf(), self.fill)
        if derived is None or not _alike(derived, actual, self.evidence.sizes.head_dim):
            self.fill = self.fill if name == "weights" else None
            self.kept[name] = self.writer.add(actual)
        return actual

    def _derived(self, name: str, scores: Tensor | None) -> Tensor | None:
        def compute() -> Tensor:
            recipe = self.evidence.recipe
            if name == "weights" and scores is not None and "scores" in self.kept:
                return recipe.normalise(scores)
            q, k = (self.evidence.value(one).contiguous() for one in ("q", "k"))  # as loaded
            return derive(recipe, name, q, k, self.fill)

        return _tried(compute)

    def gradients(self) -> None:
        """Store the gradients, where a backward reached the call."""
        for name in _LINEAR:
            self._keep(name, self.evidence.gradient, self.kept_gradients, self.missing_gradients)
        for name in _MATRICES:
            self._matrix_gradient(name)

    def _matrix_gradient(self, name: str) -> None:
        evidence, missing = self.evidence, self.missing_gradients
        if "context" in missing:
            missing[name] = missing["context"]
            return
        if evidence.by_recipe and not evidence.recipe.dropout:
            return
        actual = _read(evidence.gradient, name, missing)
        if actual is None:
            return
        derived = _tried(
            lambda: derive_gradient(
                evidence.recipe, name, evidence.value, evidence.gradient("context")
            )
        )
        if derived is None or not _alike(derived, actual, evidence.sizes.value_dim):
            self.kept_gradients[name] = self.writer.add(actual)

    def _keep(
        self,
        name: str,
        read: Callable[[str], Tensor],
        kept: dict[str, StoredTensor],
        missing: dict[str, Missing],
    ) -> None:
        tensor = _read(read, name, missing)
        if tensor is not None:
            kept[name] = self.writer.add(tensor)


def _read(read: Callable[[str], Tensor], name: str, missing: dict[str, Missing]) -> Tensor | None:
    """Return a tensor of the call, or note why there is none."""
    try:
        tensor = read(name).detach()
    except ReplayError as error:
        missing[name] = Missing(error.found, error.todo)
        return None
    reason = why_not(tensor)
    if reason is not None:
        missing[name] = Missing(reason, _RUN_AGAIN)
        return None
    return tensor


def _tried(compute: Callable[[], Tensor]) -> Tensor | None:
    """Return what the recipe gives, None where it can't say or does not fit the tensors."""
    try:
        return compute()
    except (ReplayError, RuntimeError, IndexError):
        return None


def _numbers(call: Call, packing: _Packing) -> HeadNumbers | None:
    if call.evidence.kept_numbers() is None and _MATRICES[1] in packing.missing:
        return None
    try:
        return call.numbers()
    except ReplayError:
        return None


def _recipe(call: Call) -> Recipe:
    """Return the recipe; where what it is read from has changed since, one that knows nothing."""
    try:
        return call.recipe
    except ReplayError:
        return Recipe(
            scale=None, normaliser="unknown", unknown=("scale", "mask", "bias", "normaliser")
        )


def _replay_error(call: Call) -> float | None:
    try:
        return call.replay_error
    except ReplayError:
        return None


def _fill_of(derived: Tensor, actual: Tensor) -> float | None:
    """Return the one finite score that all hidden keys have; None where there is none."""
    if derived.shape != actual.shape or derived.dtype != actual.dtype:
        return None
    hidden = actual[derived.isneginf()]
    if not hidden.numel():
        return None
    first = hidden[0]
    return float(first) if bool(first.isfinite()) and bool((hidden == first).all()) else None


def _alike(derived: Tensor, actual: Tensor, summed: int) -> bool:
    """Return whether two tensors are one, up to the rounding of a sum of `summed` products.

    Entry by entry, relative to the entry, or to 1 (or the largest, where that is less) for small
    ones: 4e-6 in float32 for a width of 64. Types below float32 have to be equal.
    """
    if derived.shape != actual.shape or derived.dtype != actual.dtype:
        return False
    exact = actual.dtype if actual.dtype in {torch.float32, torch.float64} else None
    for one, other in zip(derived.unbind(0), actual.unbind(0), strict=True):  # a sample at a time
        same = (one == other) | (one.isnan() & other.isnan())
        if bool(same.all()):
            continue
        finite = one.isfinite() & other.isfinite()
        if exact is None or not bool((same | finite).all()):
            return False
        size = other.abs()[finite]
        bound = rounding(exact, 8 + summed) * size.clamp_min(min(1.0, float(size.max())))
        if not bool(((one - other).abs()[finite] <= bound).all()):
            return False
    return True
