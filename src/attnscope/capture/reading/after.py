"""What happens to weights before they meet v: dropout, masks, mixes, divisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from attnscope.calls.held import Held
from attnscope.capture.functions import Kind, kind_of
from attnscope.capture.provenance import Node, Output, ancestors, path

if TYPE_CHECKING:
    from attnscope.capture.recorded import RecordedEvidence

_CASTS = frozenset("to type type_as float half bfloat16 double contiguous clone detach".split())
_LAYOUT_ONLY = frozenset(
    "view reshape permute transpose unsqueeze squeeze expand getitem narrow flatten unflatten "
    "chunk split select movedim mT T t view_as reshape_as pad slice unbind copy_".split()
)


def between(scores: Output, weights: Output) -> list[Output]:
    """Return the values that may be the weights: from the scores on, as far as what meets v."""
    last = ancestors([weights.node], since=scores.node.sequence + 1)
    return [Output(n, 0) for n in last if n.shapes]


def what_comes_after(evidence: RecordedEvidence, weights: Output) -> tuple[float, tuple[str, ...]]:
    """Return dropout's probability and the kinds of operation between the weights and v."""
    dropout, kinds = 0.0, []
    following = {id(node) for node in path(weights.node, evidence.weights.node)}
    for output in between(weights, evidence.weights):
        node = output.node
        name = node.name.removesuffix("_")
        if id(node) not in following:
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
    """Return one word for an operation on weights, such as mask, multiply, mix or subtract."""
    chained = [leaf for leaf in node.args if isinstance(leaf, Output)]
    if name in {"einsum", "matmul", "linear", "conv2d", "conv1d", "bmm"}:
        return "mix"
    if name in {"tril", "triu", "masked_fill", "where"}:
        return "mask"
    if name in {"mul", "rmul"}:
        other = next((leaf for leaf in node.args if isinstance(leaf, Held)), None)
        return "mask" if other is not None and is_mask(other.tensor) else "multiply"
    if name in {"sub", "rsub"} and len(chained) > 1:
        return "subtract"
    return _WORDS.get(name, name)


_WORDS = {"div": "divide", "batch_norm": "normalise", "normalize": "normalise"}


def is_mask(tensor: Tensor) -> bool:
    """Return whether a tensor that weights were multiplied with holds nothing but 0 and 1."""
    return bool(((tensor == 0) | (tensor == 1)).all())
