"""Follows every operation of a model and notices when a product of products is attention.

Keeps, weakly, for each tensor how it was made: its trail (layout), and from each product of two
data-dependent tensors onwards the operations themselves. When a later product consumes something
that came, through a normaliser, from an earlier one, that is attention.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.held import Held
from attnscope.calls.program import random_state
from attnscope.capture.describing import Describer
from attnscope.capture.einsums import parts_of
from attnscope.capture.found import Found, Outcome
from attnscope.capture.functions import SOFTMAXES, Kind, operation_name
from attnscope.capture.operands import tensors_in, two_sides
from attnscope.capture.ownwork import OwnWork
from attnscope.capture.products import is_outer, is_shared, may_be_queries
from attnscope.capture.provenance import LONGEST, LONGEST_OPEN, Node, Operand, Output
from attnscope.capture.registry import Registry
from attnscope.capture.softmaxes import Softmax
from attnscope.capture.step import (
    Args,
    Kwargs,
    Step,
    both_sides,
    divides_by_itself,
    divides_sums,
    flat,
    is_plain,
    leaves_pooled,
    may_follow,
    normalises_scores,
    shapes_of,
    strong,
)
from attnscope.capture.uses import follow
from attnscope.capture.writing import Writer


class Recorder:
    """Provenance of tensors. What it finds goes to `on_attention` and `on_softmax`."""

    def __init__(
        self,
        parameters: dict[int, tuple[Tensor, str]],
        on_attention: Callable[[Found], Outcome | None],
        on_close: Callable[[Node, Tensor], bool],
        on_start: Callable[[Node], None],
        on_softmax: Callable[[str, Node | None, bool], Softmax],
        on_fault: Callable[[str, Exception], None],
        on_unread: Callable[[str], None],
        *,
        keep_outputs: bool = False,
    ) -> None:
        """Start with nothing known.

        parameters: names by identity; buffers belong here as well, until they are written to.
        """
        self.registry = Registry()
        self.describer = Describer(self.registry, parameters)
        self.on_attention = on_attention
        self.on_close = on_close
        self.on_start = on_start
        self.on_softmax = on_softmax
        self.on_fault = on_fault
        self.on_unread = on_unread
        self.writer = Writer(self.registry, keep_outputs=keep_outputs)
        self._open: set[int] = set()  # calls over chunks whose division is still to come

    # -- one operation ------------------------------------------------------------------------

    def run(self, function: Callable[..., Any], kind: Kind, args: Args, kwargs: Kwargs) -> Any:
        """Run `function` exactly as the model asked for it and take note of what it did."""
        name = operation_name(function)
        tensors = list(tensors_in(args))
        if kwargs:
            tensors.extend(tensors_in(kwargs))
        if not tensors:
            return function(*args, **kwargs)
        step = Step(name, function, kind, args, kwargs, tensors)
        with self.barrier(name):
            self._prepare(step)
        output = step.output = function(*args, **kwargs)
        if name == "__iter__":  # `q, k, v = qkv` takes a tensor apart
            pieces = step.output = tuple(output)
            step.name, step.function, step.args = "unbind", torch.unbind, (args[0], 0)
            output = iter(pieces)
        if step.plain:
            with self.barrier(name):
                self._note(step)
                follow(step, self.registry, self.describer.is_weight, self.on_softmax)
        return output

    def barrier(self, name: str) -> OwnWork:
        """Keep attnscope's own work away from the model that is running, and its faults."""
        return OwnWork(lambda error: self.on_fault(name, error))

    def _prepare(self, step: Step) -> None:
        """Save what the operation is about to change: random state, tensors written in place."""
        step.plain = all(is_plain(tensor) for tensor in step.tensors)
        if not step.plain:
            if "softmax" in step.name:
                self.on_unread(f"{step.name} of sparse or nested tensors, which are not followed")
            return
        if "scaled_dot_product" in step.name:
            self.on_unread(
                f"{step.name}, called directly and not by F.scaled_dot_product_attention"
            )
        step.sources = self.writer.sources(step)
        if step.sources and step.kind is Kind.RANDOM:
            step.random = random_state(step.tensors[0].device)
        if step.kind is Kind.HANDS_OUT_MEMORY:
            for tensor in step.tensors:
                self.registry.about_to_change(tensor)
        targets = step.targets()
        if targets:
            step.kept = self._before_change(step, targets)

    def _before_change(self, step: Step, targets: list[Tensor]) -> Held | None:
        """Save what is kept from the coming change; return the target's old self if needed."""
        for target in targets:
            self.registry.about_to_change(target)
            entry = self.registry.find(target)
            if entry is not None and entry.raw:
                entry.raw = False
            if not isinstance(target, nn.Parameter):
                self.describer.parameters.pop(id(target), None)
        written = step.target()
        matters = bool(step.sources) or step.kind is Kind.CONTRACTION
        if not matters or written is None or "out" in step.kwargs:
            return None
        known = self.registry.find(written)
        if known is None or known.node is None:
            return Held(written.detach().clone())
        return None

    # -- what it means ------------------------------------------------------------------------

    def _note(self, step: Step) -> None:
        if step.kind is Kind.CONTRACTION:
            pair = two_sides(step.name, step.args, step.kwargs)
            if pair is not None and self._contraction(step, *pair):
                return
            if pair is None and step.name == "einsum" and self._several(step):
                return
        if step.sources:
            self._follow(step)
            return
        if step.kind is Kind.REDUCTION and self._summed_product(step):
            return
        self.describer.describe(step)
        pair = both_sides(step) if step.kind is Kind.PRODUCT else None
        if pair is not None and pair[0].shape != pair[1].shape:
            self._remember_product(step, *pair)

    def _several(self, step: Step) -> bool:
        """Deal with an einsum of three operands and more as products of two; False: it is none."""
        parts = parts_of(step, self.registry.is_normalised, self.describer.is_weight)
        for index, part in enumerate(parts):
            part.sources = self.writer.sources(part)
            rest = part.rest = parts[index + 1 :]
            self._note(part)
            if len(part.rest) < len(rest):  # it was attention, and the rest is part of it
                return True
            if part.stands_in and not self.writer.sources(parts[index + 1]):
                return False
        return bool(parts)

    def _contraction(self, step: Step, left: Tensor, right: Tensor) -> bool:
        """Deal with a product of two tensors; False where it is an ordinary operation."""
        behind_left, behind_right = strong(step, left), strong(step, right)
        weights = self.describer.is_weight(left), self.describer.is_weight(right)
        if behind_left is None and behind_right is None:
            if step.name == "einsum" and is_outer(step, left, right):
                self.describer.describe(step)
                self._remember_product(step, left, right)
                return True
            if all(weights) or (any(weights) and not may_be_queries(step.name, left, weights)):
                return False
            self._start(step, left, right, weights, ())
            return True
        ready = [out for out in (behind_left, behind_right) if out is not None]
        normal = [out.node.normalised for out in ready]
        if len(ready) == 1:
            other, is_weight = (right, weights[1]) if behind_left else (left, weights[0])
            if is_weight:
                shared = behind_right is not None and left.dim() > 2 and is_shared(left)
                if normal[0] or not shared or not may_be_queries(step.name, left, weights):
                    return False
                self._start(step, left, right, weights, ())
                return True
            if normal[0]:
                return self._attention(step, ready[0], other, weights_left=behind_left is not None)
            self._start(step, left, right, weights, (ready[0].node,))
            return True
        if all(normal):
            return False
        if any(normal):
            chosen = 0 if normal[0] else 1
            other = right if chosen == 0 else left
            return self._attention(step, ready[chosen], other, weights_left=chosen == 0)
        self._start(step, left, right, weights, tuple(out.node for out in ready))
        return True

    def _start(
        self,
        step: Step,
        left: Tensor,
        right: Tensor,
        weights: tuple[bool, bool],
        fed: tuple[Node, ...],
        *,
        attach: bool = True,
    ) -> Node:
        left_operand = self.operand(left, weight=weights[0])
        right_operand = self.operand(right, weight=weights[1])
        held = {id(left): left_operand.held, id(right): right_operand.held}
        node = self.writer.node(step, held=held, sources={})
        node.left, node.right, node.fed = left_operand, right_operand, fed
        node.weak = any(weights)
        node.pooled = self.registry.weighs(left) or self.registry.weighs(right)
        if attach:
            if node.weak:
                self.describer.describe(step)
            self.writer.attach(step, node)
        if fed:
            self.on_start(node)
        return node

    def operand(self, tensor: Tensor, *, weight: bool = False) -> Operand:
        """Keep `tensor` as q, k or v of something."""
        entry = self.registry.find(tensor)
        trail = entry.trail if entry is not None else None
        return Operand(self.registry.hold(tensor), trail, weight)

    def _remember_product(self, step: Step, left: Tensor, right: Tensor) -> None:
        """Note a product that spreads one side over the other: a sum may make it a contraction."""
        is_weight = self.describer.is_weight
        if left.dim() and right.dim() and not is_weight(left) and not is_weight(right):
            shapes = shapes_of(step.output)
            self.registry.entry(step.output).product = step.without_output(shapes)

    def _summed_product(self, step: Step) -> bool:
        """Start a chain at the sum of a product of two tensors."""
        entry = self.registry.find(step.tensors[0])
        if entry is None or entry.product is None:
            return False
        product = entry.product
        entry.product = None
        pair = two_sides(product.name, product.args, product.kwargs)
        left, right = pair if pair is not None else product.args
        if self.registry.weighs(left) or self.registry.weighs(right):  # pooled, or a sum of weights
            return False
        first = self._start(product, left, right, (False, False), (), attach=False)
        node = self.writer.node(step, held={}, sources={id(step.tensors[0]): Output(first, 0)})
        node.left, node.right = first.left, first.right
        first.left = first.right = None
        self.writer.attach(step, node)
        return True

    def _follow(self, step: Step) -> None:
        """Add an operation to the chains of its arguments, or let go of them."""
        boundary = step.kind is Kind.BOUNDARY and not normalises_scores(step)
        if boundary or not may_follow(step) or leaves_pooled(step):
            self.describer.describe(step)
            return
        if step.kind is Kind.REDUCTION:
            for out in step.sources.values():
                if out.node.weighted is not None and self._summed(step, out.node):
                    return
        node = self.writer.node(step)
        node.carries = frozenset().union(*(out.node.carries for out in step.sources.values()))
        if node.depth > (LONGEST_OPEN if self._open else LONGEST):
            self.describer.describe(step)
            return
        node.weak = all(parent.weak for parent in node.parents)
        node.pooled = all(parent.pooled for parent in node.parents)
        node.normaliser = (
            step.kind is Kind.NORMALISER or step.name in SOFTMAXES or divides_by_itself(step)
        )
        node.normalised = node.normaliser or any(parent.normalised for parent in node.parents)
        if step.kind is Kind.PRODUCT and node.normalised:
            node.weighted = self._weighted(step)
        if node.carries and divides_sums(step) and self.on_close(node, flat(step.output)[0]):
            self._open -= node.carries
            self.writer.forget(step)
            return
        if node.weak and not node.normalised:
            self.describer.describe(step)
        self.writer.attach(step, node)

    def _weighted(self, step: Step) -> tuple[Output, Operand] | None:
        """Recognise weights multiplied with v elementwise, the sum over keys still to come."""
        pair = both_sides(step)
        if pair is None or len(step.sources) != 1:
            return None
        ((identity, out),) = step.sources.items()
        weights, value = pair if id(pair[0]) == identity else (pair[1], pair[0])
        spread = prod(shapes_of(step.output)[0])
        if not out.node.normalised or spread <= weights.numel() or self.describer.is_weight(value):
            return None
        return out, self.operand(value)

    def _summed(self, step: Step, node: Node) -> bool:
        weights, value = node.weighted or (None, None)
        if weights is None or value is None:
            return False
        return self._found(step, weights, value, self.writer.node(step), weights_left=True)

    def _attention(self, step: Step, weights: Output, value: Tensor, *, weights_left: bool) -> bool:
        operand = self.operand(value)
        node = self.writer.node(step, held={id(value): operand.held})
        return self._found(step, weights, operand, node, weights_left=weights_left)

    def _found(
        self, step: Step, weights: Output, value: Operand, node: Node, *, weights_left: bool
    ) -> bool:
        last = self.writer.rest(step, node)
        whole = step.rest[-1] if step.rest else step
        outcome = self.on_attention(Found(weights, value, node, whole.output, weights_left, last))
        if outcome is None:
            return False
        step.rest = []
        if outcome.open is None:
            self.writer.forget(whole)
            return True
        end = last or node
        self._open.add(outcome.open)
        end.normalised = True
        end.carries = frozenset({outcome.open}).union(*(parent.carries for parent in node.parents))
        self.writer.attach(whole, end)
        return True
