"""Reads recorded operations into a recipe: by structure where a value lies, by numbers what it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.capture.functions import Kind, kind_of
from attnscope.capture.provenance import Chain, Node, Output, ancestors
from attnscope.capture.reading.axes import AxesReading
from attnscope.capture.reading.normaliser import read_normaliser
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
    """Outputs of the chain that are scores (what enters the normaliser) and weights (what leaves it).

    named: the normaliser, where one function does it; axis: its dimension there.
    before: extra columns in front of the keys; after: nodes between the weights and v.
    """

    scores: Output
    weights: Output
    named: str | None
    axis: int | None
    before: int
    after: tuple[Node, ...]


def find_stages(chain: Chain, start: Node, weights: Output, axes: AxesReading) -> Stages:
    """Find scores and weights among the operations between q·k and v."""
    path = [node for node in ancestors([weights.node]) if start in ancestors([node])]
    softmax = [node for node in path if node.name.removesuffix("_") in _SOFTMAX]
    if softmax:
        node = softmax[-1]
        scores, leaves = _input_of(node), Output(node, 0)
        if node.name == "log_softmax":
            leaves = next((Output(n, 0) for n in path if n.name == "exp" and node in n.parents), leaves)
        named: str | None = "softmax" if node.name in {"softmax", "log_softmax", "softmax_"} else node.name
        axis = _dimension(node)
    else:
        node = next((n for n in path if _may_normalise(n)), path[-1])
        scores, leaves, named, axis = _before_shift(_input_of(node), path), weights, None, None
    after = tuple(n for n in path if n.sequence > leaves.node.sequence)
    return Stages(scores, leaves, named, axis, _columns_before(axes, scores), after)


def _may_normalise(node: Node) -> bool:
    return node.normaliser and node.name.removesuffix("_") not in {"tanh", "clamp", "abs", "sqrt"}


def _input_of(node: Node) -> Output:
    for leaf in (*node.args, *node.kwargs.values()):
        if isinstance(leaf, Output):
            return leaf
    return Output(node.parents[0], 0)


def _before_shift(output: Output, path: list[Node]) -> Output:
    """Return the scores behind `scores - scores.max()` or `scores - logsumexp(scores)`."""
    node = output.node
    if node.name.removesuffix("_") == "sub" and node in path and len(node.args) > 1:
        first, second = node.args[0], node.args[1]
        if isinstance(first, Output) and isinstance(second, Output):
            return first
    return output


def _dimension(node: Node) -> int | None:
    axis: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    return axis if isinstance(axis, int) else None


def _columns_before(axes: AxesReading, output: Output) -> int:
    layout = axes.chain.get((id(output.node), output.index))
    if layout is None:
        return 0
    return max((atom.before for axis in layout.axes for atom in axis), default=0)


def read_recipe(evidence: RecordedEvidence) -> Recipe:
    """Read how scores came from q·k and weights from scores."""
    sizes, stages = evidence.sizes, evidence.stages
    group = max(sizes.heads // max(sizes.kv_heads, 1), 1)
    dropout, after = _after(stages)
    recipe = Recipe(
        scale=None,
        mask=Mask.nothing(),
        group=group,
        expansion=evidence.axes.expansion,
        dropout=dropout,
        after=after,
        unknown=("scale", "mask", "bias", "normaliser"),
    )
    arrangement = evidence.axes.arrange(stages.scores.node, stages.scores.index)
    if arrangement is None or evidence.products[0].output.raw.is_meta:
        return _named_only(recipe, stages)
    with torch.no_grad(), torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]  # noqa: SLF001
        probe = _Probe(evidence)
        scores = probe.scores()
        reading = read_scores(probe, probe.raw, scores)
        recipe = _with_scores(recipe, reading, evidence)
        return _with_normaliser(recipe, evidence, probe, scores)


class _Probe:
    """Re-runs the recorded operations from any q·k to the scores, both canonical."""

    def __init__(self, evidence: RecordedEvidence) -> None:
        self._evidence = evidence
        self._program = evidence.chain.program
        self._start = evidence.chain.position(evidence.start)
        output = evidence.stages.scores
        self._wanted = evidence.chain.position(output.node, output.index)
        arrangement = evidence.axes.arrange(output.node, output.index)
        assert arrangement is not None  # noqa: S101  the caller has asked
        self._arrangement = arrangement
        actual = self._program.run([self._start])[self._start]
        self._added, self._factor = _added_inside(evidence, actual)
        self.dtype = actual.dtype
        self.raw = evidence.axes.raw.canonical((actual - self._added) / self._factor)

    def __call__(self, raw: Tensor) -> Tensor:
        own = self._evidence.axes.raw.restore(raw).to(self.dtype)
        given = own * self._factor + self._added
        result = self._program.run([self._wanted], {self._start: given})[self._wanted]
        return self._arrangement.canonical(result)

    def scores(self) -> Tensor:
        return self._arrangement.canonical(self._program.run([self._wanted])[self._wanted])


def _added_inside(evidence: RecordedEvidence, actual: Tensor) -> tuple[Tensor | float, float]:
    """Return what a fused product-and-add (baddbmm) added to q·k, and its factor."""
    node = evidence.start
    if node.name not in {"baddbmm", "addmm", "addbmm"}:
        return 0.0, 1.0
    factor = float(node.kwargs.get("alpha", 1.0))
    beta = float(node.kwargs.get("beta", 1.0))
    added = getattr(node.args[0], "tensor", None)
    if beta == 0.0 or added is None:
        return 0.0, factor
    return (added * beta).expand_as(actual), factor


def _with_scores(recipe: Recipe, reading: ScoresReading, evidence: RecordedEvidence) -> Recipe:
    operands = scale_of(evidence.q_operand.trail), scale_of(evidence.k_operand.trail)
    scale = reading.scale
    if scale is not None:
        for factor in operands:
            scale = scale * factor
    unknown = tuple(dict.fromkeys(reading.unknown))
    visible = reading.visible
    mask = Mask.nothing() if visible is None else Mask.from_tensor(visible)
    return replace(
        recipe,
        scale=scale,
        softcap=reading.softcap,
        bias=reading.bias,
        mask=mask,
        sinks=reading.sinks,
        unknown=unknown,
    )


def _with_normaliser(
    recipe: Recipe, evidence: RecordedEvidence, probe: _Probe, scores: Tensor
) -> Recipe:
    stages, axes = evidence.stages, evidence.axes
    if stages.named is not None:
        axis = "unknown" if stages.axis is None else "·".join(
            axes.roles(stages.scores.node, stages.scores.index, stages.axis)
        )
        recipe = replace(recipe, normaliser=stages.named, normaliser_axis=axis or "unknown")
        return replace(recipe, unknown=_without(recipe.unknown, "normaliser"))
    del probe
    for output in _candidates(stages):
        arrangement = axes.arrange(output.node, output.index)
        if arrangement is None:
            continue
        position = evidence.chain.position(output.node, output.index)
        weights = arrangement.canonical(evidence.chain.program.run([position])[position])
        found = read_normaliser(scores, weights)
        if found.name != "unknown":
            return replace(recipe, normaliser=found.name, normaliser_axis=found.axis)
    return replace(
        recipe,
        normaliser="unknown",
        normaliser_axis="unknown",
        unknown=(*recipe.unknown, "normaliser"),
    )


def _candidates(stages: Stages) -> list[Output]:
    return [stages.weights]


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(one for one in names if one != name)


def _named_only(recipe: Recipe, stages: Stages) -> Recipe:
    if stages.named is None:
        return replace(recipe, normaliser="unknown", normaliser_axis="unknown")
    return replace(recipe, normaliser=stages.named, unknown=_without(recipe.unknown, "normaliser"))


def _after(stages: Stages) -> tuple[float, tuple[str, ...]]:
    """Return dropout's probability and the kinds of operation between the weights and v."""
    dropout, kinds = 0.0, []
    for node in stages.after:
        name = node.name.removesuffix("_")
        if kind_of(node.function) is Kind.RANDOM and "dropout" in name:
            dropout = max(dropout, _probability(node))
        elif name not in _CASTS and name not in _LAYOUT_ONLY:
            kinds.append(_kind_after(node, name))
    return dropout, tuple(dict.fromkeys(kinds))


def _probability(node: Node) -> float:
    values = dict(zip(("input", "p", "training"), node.args, strict=False)) | node.kwargs
    training = values.get("training", values.get("train", True))
    return float(values.get("p", 0.5)) if training else 0.0


def _kind_after(node: Node, name: str) -> str:
    others = [leaf for leaf in node.args if isinstance(leaf, Output)]
    if name in {"einsum", "matmul", "linear", "conv2d", "conv1d", "bmm"}:
        return "mix"
    if name in {"mul", "rmul", "masked_fill", "where"}:
        return "mask" if len(others) < 2 else "multiply"  # noqa: PLR2004
    if name in {"sub", "rsub"} and len(others) > 1:
        return "subtract"
    if name == "div" and len(others) > 1:
        return "renormalise"
    return name
