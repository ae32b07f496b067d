"""Gradients of hand-written attention: the recorded operations under autograd, from the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnscope.capture.naming import unnamed
from attnscope.capture.reading.trails import scale_of
from attnscope.errors import ReplayError

if TYPE_CHECKING:
    from attnscope.capture.recorded import RecordedEvidence

__all__ = ["gradient_of", "gradient_through_scores"]


def gradient_of(evidence: RecordedEvidence, name: str) -> Tensor:
    """Return the gradient of q, k, v, scores, weights or context, canonical."""
    if name == "context":
        return _of_context(evidence)
    if name in {"scores", "weights"}:
        return _inner(evidence, name)
    if name != "v" and getattr(evidence.axes, name).shape[0] < evidence.sizes.batch:
        return _shared(evidence, name)
    held, arrangement = evidence.kept_as(name)
    position = evidence.chain.program.position_of(held)
    gradient = _from_contexts(evidence, position, held.tensor.clone())
    return evidence.read_gradient(name, arrangement, gradient)


def _of_context(evidence: RecordedEvidence) -> Tensor:
    first = evidence.products[0]
    held, arrangement = evidence.kept_as("context")
    cotangent = first.cotangent.tensor()
    if first.last is not None:
        position, wanted = map(evidence.chain.position, (first.node, first.last))
        cotangent = _backward(evidence, [wanted], [cotangent], position, held.tensor.clone())
    return arrangement.canonical(cotangent)


def gradient_through_scores(evidence: RecordedEvidence, name: str, cotangent: Tensor) -> Tensor:
    """Carry a gradient of the scores (batch, heads, queries, keys) on to q or k."""
    output = evidence.reading.scores
    arrangement = evidence.axes.arrange(output.node, output.index)
    if arrangement is None or arrangement.shape[-1] != cotangent.shape[-1]:
        raise unnamed(f"the gradient of {name}", output.node.shapes[output.index])
    operand = evidence.q_operand if name == "q" else evidence.k_operand
    own = evidence.axes.q if name == "q" else evidence.axes.k
    position = evidence.chain.program.position_of(operand.held)
    wanted = evidence.chain.position(output.node, output.index)
    leaf = operand.held.tensor.clone()
    gradient = _backward(evidence, [wanted], [arrangement.restore(cotangent)], position, leaf)
    canonical = own.canonical(gradient, add_copies=True)
    return evidence.spread(canonical) * scale_of(operand.trail)


def _shared(evidence: RecordedEvidence, name: str) -> Tensor:
    """Give each sample its own gradient of a q or k that all samples share."""
    position = evidence.chain.position(evidence.start)
    with torch.no_grad():
        leaf = evidence.chain.program.run([position])[position].clone()
    gradient = _from_contexts(evidence, position, leaf)
    product = evidence.cut(evidence.axes.raw.canonical(gradient))  # batch heads queries keys
    q, k = evidence.value("q"), evidence.value("k")
    scale = scale_of(evidence.q_operand.trail) * scale_of(evidence.k_operand.trail)
    group = evidence.sizes.heads // k.shape[1]
    if name == "q":
        return product @ k.repeat_interleave(group, 1) * scale
    by_head = product.mT @ q * scale  # batch heads keys head_dim
    return by_head.reshape(len(by_head), k.shape[1], group, *by_head.shape[2:]).sum(2)


def _inner(evidence: RecordedEvidence, name: str) -> Tensor:
    output = evidence.reading.scores if name == "scores" else evidence.reading.weights
    arrangement = evidence.axes.arrange(output.node, output.index)
    if arrangement is None:
        raise unnamed(f"the gradient of {name}", output.node.shapes[output.index])
    if evidence.chain.changes_of(output):
        raise ReplayError(
            doing=f"deriving the gradient of {name}",
            found="memory that was written to through a view",
            todo="read the gradients of q, k, v and context instead",
        )
    position = evidence.chain.position(output.node, output.index)
    with torch.no_grad():
        leaf = evidence.chain.value(output).clone()
    gradient = _from_contexts(evidence, position, leaf)
    return evidence.keys_of(evidence.cut(arrangement.canonical(gradient)))


def _from_contexts(evidence: RecordedEvidence, position: int, leaf: Tensor) -> Tensor:
    """Return the gradient of one value of the chain, from those of all contexts."""
    cotangents = [product.cotangent.tensor() for product in evidence.products]
    wanted = [evidence.chain.position(product.end) for product in evidence.products]
    return _backward(evidence, wanted, cotangents, position, leaf)


def _backward(
    evidence: RecordedEvidence,
    wanted: list[int],
    cotangents: list[Tensor],
    position: int,
    leaf: Tensor,
) -> Tensor:
    with torch.inference_mode(mode=False), torch.enable_grad():
        leaf = leaf.requires_grad_()
        values = evidence.chain.program.run(wanted, {position: leaf})
        outputs = [values[index] for index in wanted]
        (gradient,) = torch.autograd.grad(
            outputs, [leaf], cotangents, allow_unused=True, materialize_grads=True
        )
    return gradient
