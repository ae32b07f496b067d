"""Reads recorded operations into a recipe: by structure where a value is, by numbers what it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnscope.calls.held import Held, has_values
from attnscope.calls.mask import Mask
from attnscope.calls.normalisers import AXES, NORMALISERS
from attnscope.calls.recipe import Recipe
from attnscope.calls.tolerance import largest_relative, replay, unit_roundoff
from attnscope.capture.provenance import Node, Output
from attnscope.capture.reading.after import between, is_mask, what_comes_after
from attnscope.capture.reading.expansion import mixed_map
from attnscope.capture.reading.kvindex import ranks
from attnscope.capture.reading.normaliser import NormaliserReading, read_normaliser
from attnscope.capture.reading.scores import ScoresReading, read_scores
from attnscope.capture.reading.stages import (
    columns_before,
    dimension_of,
    input_of,
)
from attnscope.capture.reading.trails import scale_of

if TYPE_CHECKING:
    from attnscope.capture.recorded import RecordedEvidence


@dataclass(frozen=True, slots=True)
class Reading:
    """A recipe with the values that it found to be scores and weights."""

    recipe: Recipe
    scores: Output
    weights: Output


def read_recipe(evidence: RecordedEvidence) -> Reading:
    """Read how scores came from q·k and weights from scores."""
    stages = evidence.stages
    real = evidence.products[0].output.raw
    if not has_values(real) or real.is_complex():
        return _finished(evidence, Reading(_unread(evidence), stages.scores, stages.weights))
    with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
        best = None
        for scores in (stages.scores, *stages.others):
            if evidence.axes.arrange(scores.node, scores.index) is None:
                continue
            try:
                reading = _read_from(scores, evidence)
            except (RuntimeError, IndexError, ValueError, TypeError):
                continue  # operations that take no other raw scores than their own
            if best is None or _doubts(reading) < _doubts(best):
                best = reading
            if not _doubts(reading):
                break
        best = best or Reading(_unread(evidence), stages.scores, stages.weights)
        return _finished(evidence, best)


def _doubts(reading: Reading) -> int:
    """Return how much speaks against a reading: unknown parts, a bias that shifts whole rows."""
    bias = reading.recipe.bias
    shifts = bias is not None and bias.shape[-1] == 1 and bias.numel() > 1
    return 2 * len(reading.recipe.unknown) + int(shifts)


def read_first_chunk(evidence: RecordedEvidence) -> Reading:
    """Read the first chunk of the keys: scores as they are, before a maximum is subtracted."""
    with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
        return _finished(evidence, _read_from(evidence.stages.scores, evidence))


def read_chunk(evidence: RecordedEvidence) -> Reading:
    """Read a later chunk: its scores alone, since one chunk's weights are no normaliser's."""
    stages = evidence.stages
    with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
        probe = _Probe(evidence, stages.scores)
        scores = read_scores(probe, probe.raw, probe.scores())
        recipe = _with_scores(_unread(evidence), scores, evidence)
        return _finished(evidence, Reading(recipe, stages.scores, stages.weights))


def _unread(evidence: RecordedEvidence) -> Recipe:
    stages = evidence.stages
    unknown: tuple[str, ...] = ("scale", "mask", "bias")
    if stages.named is None:
        unknown = (*unknown, "normaliser")
    return Recipe(
        scale=None,
        normaliser=stages.named or "unknown",
        normaliser_axis=_named_axis(evidence) if stages.named else "unknown",
        unknown=unknown,
    )


def _read_from(scores: Output, evidence: RecordedEvidence) -> Reading:
    probe = _Probe(evidence, scores)
    actual = probe.scores()
    reading = read_scores(probe, probe.raw, actual)
    recipe = _with_scores(_unread(evidence), reading, evidence)
    found = _with_normaliser(Reading(recipe, scores, evidence.stages.weights), evidence, actual)
    return _proven(found, evidence, probe.raw.dtype)


def _proven(reading: Reading, evidence: RecordedEvidence, dtype: torch.dtype) -> Reading:
    """Return the reading if it makes the recorded weights, else one that says that it does not.

    dtype: of q·k, which under autocast is shorter than that of q.
    """
    recipe = reading.recipe
    actual = _weights_at(evidence, reading.weights)
    if recipe.unknown or recipe.normaliser in _NOT_YET or actual is None:
        return reading
    if recipe.normaliser not in NORMALISERS or recipe.normaliser_axis not in AXES:
        return reading
    q, k = evidence.value("q").double(), evidence.value("k").double()
    known = replace(recipe, group=evidence.sizes.group, **_expansion(evidence))
    least = max((actual.dtype, dtype), key=unit_roundoff)
    bound = replay(least, evidence.sizes.keys, evidence.sizes.head_dim)
    before = columns_before(evidence.axes, reading.weights)
    actual = actual[..., before : before + evidence.sizes.keys]
    if largest_relative(known.weights(q, k), actual) <= bound:
        return reading
    if evidence.stages.named is not None:
        return replace(reading, recipe=replace(recipe, unknown=("scores",)))
    return replace(reading, recipe=replace(recipe, normaliser="unknown", unknown=("normaliser",)))


def _finished(evidence: RecordedEvidence, reading: Reading) -> Reading:
    """Add what does not depend on values: groups, dropout, what comes after the weights."""
    dropout, after = what_comes_after(evidence, reading.weights)
    recipe = replace(
        reading.recipe,
        group=evidence.sizes.group,
        dropout=dropout,
        after=after,
        **_expansion(evidence),
    )
    return replace(reading, recipe=recipe)


def _expansion(evidence: RecordedEvidence) -> dict[str, Any]:
    """Return how kv heads met query heads, as fields of a recipe."""
    if evidence.kv_index is not None:
        return {"expansion": "index", "kv_map": ranks(evidence.kv_index)}
    mixed = mixed_map(evidence.axes.sizes, evidence.axes.k)
    if mixed is not None:
        return {"expansion": "index", "kv_map": mixed}
    return {"expansion": evidence.axes.expansion}


class _Probe:
    """Re-runs the recorded operations from any q·k to the scores, both canonical."""

    def __init__(self, evidence: RecordedEvidence, output: Output) -> None:
        self._evidence = evidence
        self._start = evidence.chain.position(evidence.start)
        self._wanted = output
        arrangement = evidence.axes.arrange(output.node, output.index)
        assert arrangement is not None  # noqa: S101  the caller has asked
        self._arrangement = arrangement
        actual = evidence.chain.program.run([self._start])[self._start]
        self._added, self._factor = _added_inside(evidence, actual)
        self.dtype = actual.dtype
        self._whole = evidence.axes.raw.canonical((actual - self._added) / self._factor)
        self.raw = evidence.cut(self._whole)
        self.dtype = self._exact()

    def __call__(self, raw: Tensor) -> Tensor:
        if raw.shape != self._whole.shape:
            whole = torch.zeros_like(self._whole, dtype=raw.dtype)
            whole[(..., *self._evidence.axes.cut)] = raw
            raw = whole
        own = self._evidence.axes.raw.restore(raw).to(self.dtype)
        given = own * self._factor + self._added
        return self._canonical(self._evidence.chain.value(self._wanted, {self._start: given}))

    def scores(self) -> Tensor:
        return self._canonical(self._evidence.chain.value(self._wanted))

    def _canonical(self, tensor: Tensor) -> Tensor:
        """Return scores with the columns that are no keys behind those that are."""
        canonical = self._evidence.cut(self._arrangement.canonical(tensor))
        before = self._evidence.stages.before
        return canonical.roll(-before, -1) if before else canonical

    def _exact(self) -> torch.dtype:
        """Return float64 where the recorded operations take it, else their own type."""
        own, self.dtype = self.dtype, torch.float64
        try:
            return torch.float64 if self(self.raw).dtype == torch.float64 else own
        except RuntimeError:
            return own


def _added_inside(evidence: RecordedEvidence, actual: Tensor) -> tuple[Tensor | float, float]:
    """Return what a fused product-and-add (baddbmm) added to q·k, and its factor."""
    node = evidence.start
    if node.name == "einsum":
        return 0.0, _numbers_inside(node)
    if node.name.removesuffix("_") not in {"baddbmm", "addmm", "addbmm"}:
        return 0.0, 1.0
    factor = float(node.kwargs.get("alpha", 1.0))
    beta = float(node.kwargs.get("beta", 1.0))
    added = getattr(node.args[0], "tensor", None)
    if beta == 0.0 or added is None:
        return 0.0, factor
    return (added * beta).expand_as(actual), factor


def _numbers_inside(node: Node) -> float:
    """Return the product of the single numbers among the operands of an einsum."""
    factor = 1.0
    for leaf in node.args[1:]:
        for operand in leaf if isinstance(leaf, (tuple, list)) else (leaf,):
            if isinstance(operand, Held) and operand.shape == ():
                factor *= float(operand.tensor)
    return factor


def _with_scores(recipe: Recipe, reading: ScoresReading, evidence: RecordedEvidence) -> Recipe:
    operands = [scale_of(side.trail) for side in (evidence.q_operand, evidence.k_operand)]
    scale = reading.scale
    if scale is not None:
        for factor in operands:
            scale = scale * factor
    kept = ("normaliser",) if "normaliser" in recipe.unknown else ()
    unknown = tuple(dict.fromkeys((*reading.unknown, *kept)))
    visible = reading.visible
    mask = Mask.nothing() if visible is None else Mask.from_tensor(visible)
    return replace(
        recipe,
        scale=scale,
        softcap=reading.softcap if "scores" not in unknown else None,
        bias=reading.bias if "scores" not in unknown else None,
        mask=mask,
        sinks=reading.sinks,
        empty_row=reading.empty_row or "nan",
        unknown=unknown,
    )


def _with_normaliser(reading: Reading, evidence: RecordedEvidence, scores: Tensor) -> Reading:
    recipe, stages = reading.recipe, evidence.stages
    if stages.named is not None:
        return reading
    found = _name_normaliser(reading, evidence, scores)
    if found is None or found[0].name in _NOT_YET:
        for visible in _masks_inside(reading, evidence):
            masked = scores.masked_fill(~visible, float("-inf"))
            better = _name_normaliser(reading, evidence, masked)
            if better is not None and better[0].name not in _NOT_YET:
                found = better
                recipe = replace(recipe, mask=recipe.mask & Mask.from_tensor(visible))
    if found is None:
        axis = _summed_axis(evidence, reading)
        return replace(reading, recipe=replace(recipe, normaliser_axis=axis))
    named, output = found
    unknown = tuple(part for part in recipe.unknown if part != "normaliser")
    sinks = named.sinks if named.sinks is not None else recipe.sinks
    recipe = replace(
        recipe,
        normaliser=named.name,
        normaliser_axis=named.axis,
        normaliser_factor=named.factor,
        sinks=sinks,
        empty_row=named.empty_row or recipe.empty_row,
        unknown=unknown,
    )
    return replace(reading, recipe=recipe, weights=output)


def _name_normaliser(
    reading: Reading, evidence: RecordedEvidence, scores: Tensor
) -> tuple[NormaliserReading, Output] | None:
    """Return what makes a later value of the scores, and that value; the last that has a name."""
    found: tuple[NormaliserReading, Output] | None = None
    for output in between(reading.scores, evidence.stages.weights):
        arrangement = evidence.axes.arrange(output.node, output.index)
        if arrangement is None or arrangement.shape[-1] < evidence.sizes.keys:
            continue  # a sum over the keys, or some of them
        weights = _weights_at(evidence, output)
        if weights is None or weights.shape[:-1] != scores.shape[:-1]:
            continue
        named = read_normaliser(scores, weights)
        if named.name in ("unknown", "identity"):
            continue
        if found is None or named.name not in _NOT_YET or found[0].name in _NOT_YET:
            found = named, output
    return found


def _masks_inside(reading: Reading, evidence: RecordedEvidence) -> Iterator[Tensor]:
    """Yield masks of 0 and 1 that were multiplied on between the scores and the weights."""
    for output in between(reading.scores, evidence.stages.weights):
        node = output.node
        arrangement = evidence.axes.arrange(node)
        other = next((leaf for leaf in node.args if isinstance(leaf, Held)), None)
        if node.name not in {"mul", "rmul", "mul_"} or other is None or arrangement is None:
            continue
        if is_mask(other.tensor):
            yield arrangement.canonical(other.tensor.expand(node.shapes[0])) != 0


def _named_axis(evidence: RecordedEvidence) -> str:
    stages = evidence.stages
    if stages.axis is None:
        return "unknown"
    roles = evidence.axes.roles(stages.scores.node, stages.scores.index, stages.axis)
    if not roles and stages.scores.node.shapes[stages.scores.index][stages.axis] == 1:
        return "keys" if evidence.sizes.keys == 1 else "unknown"  # an axis of one says no more
    return "·".join(roles) or "unknown"


_NOT_YET = frozenset({"exp", "exp-minus-max"})
"""What an intermediate value looks like before its row is divided by the sum."""


def _weights_at(evidence: RecordedEvidence, output: Output) -> Tensor | None:
    arrangement = evidence.axes.arrange(output.node, output.index)
    if arrangement is None:
        return None
    return evidence.cut(arrangement.canonical(evidence.chain.value(output)))


def _summed_axis(evidence: RecordedEvidence, reading: Reading) -> str:
    """Return the axis over which the weights were made to sum to one, where that can be told."""
    for output in between(reading.scores, evidence.stages.weights):
        node = output.node
        axis = dimension_of(node) if node.name in {"sum", "logsumexp", "norm"} else None
        if node.name == "normalize":  # input, p, dim
            axis = node.kwargs.get("dim", node.args[2] if len(node.args) > 2 else 1)
        if axis is not None:
            source = input_of(node)
            return "·".join(evidence.axes.roles(source.node, source.index, axis)) or "unknown"
    return "unknown"
