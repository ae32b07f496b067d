"""Reads recorded operations into a recipe: by structure where a value lies, by numbers what it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnscope.calls.held import Held, has_values
from attnscope.calls.mask import Mask
from attnscope.calls.normalisers import AXES, NORMALISERS
from attnscope.calls.recipe import Recipe
from attnscope.calls.tolerance import largest_relative, replay, unit_roundoff
from attnscope.capture.functions import Kind, kind_of
from attnscope.capture.provenance import Node, Output, ancestors
from attnscope.capture.reading.axes import AxesReading
from attnscope.capture.reading.normaliser import NormaliserReading, read_normaliser
from attnscope.capture.reading.scores import ScoresReading, read_scores
from attnscope.capture.reading.trails import scale_of

if TYPE_CHECKING:
    from attnscope.capture.recorded import RecordedEvidence

_SOFTMAX = frozenset({"softmax", "log_softmax", "softmin", "gumbel_softmax"})
_CASTS = frozenset("to type type_as float half bfloat16 double contiguous clone detach".split())
_LAYOUT_ONLY = frozenset(
    "view reshape permute transpose unsqueeze squeeze expand getitem narrow flatten unflatten chunk "
    "split select movedim mT T t view_as reshape_as pad slice unbind copy_".split()
)


@dataclass(frozen=True, slots=True)
class Stages:
    """What of the chain is scores (enters the normaliser) and weights (leaves it), by structure.

    named: the normaliser, where one function does it; axis: its dimension there.
    before: extra columns in front of the keys. others: further values that may be the scores,
    where the normaliser is written by hand.
    """

    scores: Output
    weights: Output
    named: str | None
    axis: int | None
    before: int
    others: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A recipe with the values that it found to be scores and weights."""

    recipe: Recipe
    scores: Output
    weights: Output


def find_stages(start: Node, weights: Output, axes: AxesReading) -> Stages:
    """Find scores and weights among the operations between q·k and v."""
    path = [node for node in ancestors([weights.node]) if start in ancestors([node])]
    softmax = outermost_softmaxes(path)
    if softmax:
        node = softmax[0]
        scores, leaves = _input_of(node), Output(node, 0)
        if node.name == "log_softmax":
            after = (Output(n, 0) for n in path if n.name == "exp" and node in n.parents)
            leaves = next(after, leaves)
        named = _NAMES.get(node.name, node.name)
        before = _columns_before(axes, scores)
        return Stages(scores, leaves, named, _dimension(node), before)
    nodes = [n for n in path if n.normaliser]
    nodes = [n for n in nodes if n.name.removesuffix("_") not in _INNER] or nodes or path[-1:]
    inputs = [output for n in nodes[:_TRIED] for output in _shifted(_input_of(n), path)]
    first = inputs[0]
    others = {(id(output.node), output.index): output for output in inputs[1:]}
    before = _columns_before(axes, first)
    return Stages(first, weights, None, None, before, tuple(others.values()))


_NAMES = {"log_softmax": "softmax", "softmax_": "softmax"}
_INNER = frozenset({"tanh", "clamp", "abs", "sqrt", "square", "pow"})
"""What scores may go through without becoming weights."""
_TRIED = 6


def outermost_softmaxes(nodes: list[Node]) -> list[Node]:
    """Return the softmaxes that no later softmax comes from."""
    softmax = [node for node in nodes if node.name.removesuffix("_") in _SOFTMAX]
    inner = {id(before) for node in softmax for before in ancestors(node.parents)}
    return [node for node in softmax if id(node) not in inner]


def _input_of(node: Node) -> Output:
    for leaf in (*node.args, *node.kwargs.values()):
        if isinstance(leaf, Output):
            return leaf
    return Output(node.parents[0], 0)


def _shifted(output: Output, path: list[Node]) -> list[Output]:
    """Return `output`, after the scores behind `scores - scores.max()` where it is such."""
    node = output.node
    if node.name.removesuffix("_") in {"sub", "add"} and node in path and len(node.args) > 1:
        first, second = node.args[0], node.args[1]
        shape = node.shapes[0]
        by_row = isinstance(second, Held) and second.shape[-1:] == (1,) and shape[-1:] != (1,)
        if isinstance(first, Output) and (isinstance(second, Output) or by_row):
            return [first, output]
    return [output]


def _dimension(node: Node) -> int | None:
    axis: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    return axis if isinstance(axis, int) else None


def _columns_before(axes: AxesReading, output: Output) -> int:
    layout = axes.chain.get((id(output.node), output.index))
    if layout is None:
        return 0
    return max((atom.before for axis in layout.axes for atom in axis), default=0)


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
            reading = _read_from(scores, evidence)
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


def read_chunk(evidence: RecordedEvidence) -> Reading:
    """Read one chunk of the keys: scores as they are, before a running maximum is subtracted."""
    stages = evidence.stages
    with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
        return _finished(evidence, _read_from(stages.scores, evidence))


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
    group = max(evidence.sizes.heads // max(evidence.sizes.kv_heads, 1), 1)
    known = replace(recipe, group=group, expansion=evidence.axes.expansion)
    least = max((actual.dtype, dtype), key=unit_roundoff)
    bound = replay(least, evidence.sizes.keys, evidence.sizes.head_dim)
    before = _columns_before(evidence.axes, reading.weights)
    actual = actual[..., before : before + evidence.sizes.keys]
    if largest_relative(known.weights(q, k), actual) <= bound:
        return reading
    if evidence.stages.named is not None:
        return replace(reading, recipe=replace(recipe, unknown=("scores",)))
    return replace(reading, recipe=replace(recipe, normaliser="unknown", unknown=("normaliser",)))


def _finished(evidence: RecordedEvidence, reading: Reading) -> Reading:
    """Add what does not depend on values: groups, dropout, what comes after the weights."""
    sizes = evidence.sizes
    dropout, after = _after(evidence, reading.weights)
    recipe = replace(
        reading.recipe,
        group=max(sizes.heads // max(sizes.kv_heads, 1), 1),
        expansion=evidence.axes.expansion,
        dropout=dropout,
        after=after,
    )
    return replace(reading, recipe=recipe)


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
        self.raw = evidence.axes.raw.canonical((actual - self._added) / self._factor)
        self.dtype = self._exact()

    def __call__(self, raw: Tensor) -> Tensor:
        own = self._evidence.axes.raw.restore(raw).to(self.dtype)
        given = own * self._factor + self._added
        return self._canonical(self._evidence.chain.value(self._wanted, {self._start: given}))

    def scores(self) -> Tensor:
        return self._canonical(self._evidence.chain.value(self._wanted))

    def _canonical(self, tensor: Tensor) -> Tensor:
        """Return scores with the columns that are no keys behind those that are."""
        canonical = self._arrangement.canonical(tensor)
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
    if node.name not in {"baddbmm", "addmm", "addbmm"}:
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
        softcap=reading.softcap,
        bias=reading.bias,
        mask=mask,
        sinks=reading.sinks,
        empty_row=reading.empty_row or "nan",
        unknown=unknown,
    )


def _with_normaliser(reading: Reading, evidence: RecordedEvidence, scores: Tensor) -> Reading:
    recipe, stages = reading.recipe, evidence.stages
    if stages.named is not None:
        return reading
    found: tuple[NormaliserReading, Output] | None = None
    for output in _between(reading.scores, stages.weights):
        weights = _weights_at(evidence, output)
        if weights is None or weights.shape[:-1] != scores.shape[:-1]:
            continue
        named = read_normaliser(scores, weights)
        if named.name in ("unknown", "identity"):
            continue
        if found is None or named.name not in _NOT_YET or found[0].name in _NOT_YET:
            found = named, output
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


def _named_axis(evidence: RecordedEvidence) -> str:
    stages = evidence.stages
    if stages.axis is None:
        return "unknown"
    roles = evidence.axes.roles(stages.scores.node, stages.scores.index, stages.axis)
    return "·".join(roles) or "unknown"


_NOT_YET = frozenset({"exp", "exp-minus-max"})
"""What an intermediate value looks like before its row is divided by the sum."""


def _between(scores: Output, weights: Output) -> list[Output]:
    """Return the values that may be the weights: from the scores on, as far as what meets v."""
    last = ancestors([weights.node])
    return [Output(n, 0) for n in last if n.sequence > scores.node.sequence and n.shapes]


def _weights_at(evidence: RecordedEvidence, output: Output) -> Tensor | None:
    arrangement = evidence.axes.arrange(output.node, output.index)
    if arrangement is None:
        return None
    return arrangement.canonical(evidence.chain.value(output))


def _summed_axis(evidence: RecordedEvidence, reading: Reading) -> str:
    """Return the axis over which the weights were made to sum to one, where that can be told."""
    for output in _between(reading.scores, evidence.stages.weights):
        node = output.node
        axis = _dimension(node) if node.name in {"sum", "logsumexp", "norm"} else None
        if node.name == "normalize":  # input, p, dim
            axis = node.kwargs.get("dim", node.args[2] if len(node.args) > 2 else 1)
        if axis is not None:
            source = _input_of(node)
            return "·".join(evidence.axes.roles(source.node, source.index, axis)) or "unknown"
    return "unknown"


def _after(evidence: RecordedEvidence, weights: Output) -> tuple[float, tuple[str, ...]]:
    """Return dropout's probability and the kinds of operation between the weights and v."""
    dropout, kinds = 0.0, []
    for output in _between(weights, evidence.weights):
        node = output.node
        name = node.name.removesuffix("_")
        if weights.node not in ancestors([node]):
            continue
        if kind_of(node.function) is Kind.RANDOM and "dropout" in name:
            dropout = max(dropout, _probability(node))
        elif name not in _CASTS and name not in _LAYOUT_ONLY and _is_whole(evidence, node):
            kinds.append(_kind_after(node, name))
    return dropout, tuple(dict.fromkeys(kinds))


def _is_whole(evidence: RecordedEvidence, node: Node) -> bool:
    """Return whether a node holds weights, not a sum over them."""
    arrangement = evidence.axes.arrange(node)
    return arrangement is None or arrangement.shape[-1] >= evidence.sizes.keys


def _probability(node: Node) -> float:
    values = dict(zip(("input", "p", "training"), node.args, strict=False)) | node.kwargs
    training = values.get("training", values.get("train", True))
    return float(values.get("p", 0.5)) if training else 0.0


def _kind_after(node: Node, name: str) -> str:
    """Return one word for an operation on weights: mask, multiply, mix, subtract, divide, …"""
    chained = [leaf for leaf in node.args if isinstance(leaf, Output)]
    if name in {"einsum", "matmul", "linear", "conv2d", "conv1d", "bmm"}:
        return "mix"
    if name in {"tril", "triu", "masked_fill", "where"}:
        return "mask"
    if name in {"mul", "rmul"}:
        other = next((leaf for leaf in node.args if isinstance(leaf, Held)), None)
        return "mask" if other is not None and _is_mask(other.tensor) else "multiply"
    if name in {"sub", "rsub"} and len(chained) > 1:
        return "subtract"
    return _WORDS.get(name, name)


_WORDS = {"div": "divide", "batch_norm": "normalise", "normalize": "normalise"}


def _is_mask(tensor: Tensor) -> bool:
    return bool(((tensor == 0) | (tensor == 1)).all())
