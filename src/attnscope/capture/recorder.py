"""Follows every operation of a model and notices when a product of products is attention.

Keeps, weakly, for each tensor how it was made: its trail (layout), and from each product of two
data-dependent tensors onwards the operations themselves. When a later product consumes something
that came, through a normaliser, from an earlier one, that is attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.held import Held, storage_key
from attnscope.calls.program import Autocast, RandomState, map_leaves, random_state
from attnscope.capture.functions import Kind, changes_in_place, operation_name
from attnscope.capture.ownwork import OwnWork
from attnscope.capture.operands import pairing_of, tensors_in, two_sides
from attnscope.capture.place import find_source
from attnscope.capture.provenance import LONGEST, LONGEST_OPEN, Node, Operand, Output
from attnscope.capture.registry import Registry
from attnscope.capture.softmaxes import FOLLOWED, Softmax
from attnscope.capture.trail import DEEPEST, LAYOUT, Trail, Unfollowed

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_MAKES_ACTIVATIONS = frozenset("linear conv1d conv2d conv3d embedding layer_norm rms_norm".split())
_MIXES = frozenset({"linear", "conv1d", "conv2d"})
SOFTMAXES = frozenset({"softmax", "log_softmax", "softmin", "gumbel_softmax"})
_CONVOLUTIONS = frozenset({"conv1d", "conv2d"})
_WRITES_LISTS = "_foreach_"
_DEEPEST_PROJECTION = 12


class Recorder:
    """Provenance of tensors. What it finds goes to `on_attention` and `on_softmax`."""

    def __init__(
        self,
        parameters: dict[int, tuple[Tensor, str]],
        on_attention: Callable[[Found], Outcome | None],
        on_close: Callable[[Node, Tensor], bool],
        on_start: Callable[[Node], None],
        on_softmax: Callable[[str, Node | None], Softmax],
        on_fault: Callable[[str, Exception], None],
        *,
        keep_outputs: bool = False,
    ) -> None:
        """Start with nothing known.

        parameters: names by identity; buffers belong here as well, until they are written to.
        """
        self.registry = Registry()
        self.parameters = parameters
        self.on_attention = on_attention
        self.on_close = on_close
        self.on_start = on_start
        self.on_softmax = on_softmax
        self.on_fault = on_fault
        self.keep_outputs = keep_outputs

    # -- one operation ------------------------------------------------------------------------

    def run(self, function: Callable[..., Any], kind: Kind, args: Args, kwargs: Kwargs) -> Any:  # noqa: ANN401
        """Run `function` exactly as the model asked for it and take note of what it did."""
        name = operation_name(function)
        tensors = list(tensors_in(args))
        if kwargs:
            tensors.extend(tensors_in(kwargs))
        if not tensors:
            return function(*args, **kwargs)
        step = _Step(name, function, kind, args, kwargs, tensors)
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
                self._follow_softmaxes(step)
        return output

    def barrier(self, name: str) -> OwnWork:
        """Keep attnscope's own work away from the model that is running, and its faults."""
        return OwnWork(lambda error: self.on_fault(name, error))

    def _prepare(self, step: _Step) -> None:
        """Save what the operation is about to change: random state, tensors written in place."""
        step.plain = all(_is_plain(tensor) for tensor in step.tensors)
        if not step.plain:
            return
        step.sources = self._outputs_behind(step.tensors)
        if step.sources and step.kind is Kind.RANDOM:
            step.random = random_state(step.tensors[0].device)
        if step.kind is Kind.HANDS_OUT_MEMORY:
            for tensor in step.tensors:
                self.registry.about_to_change(tensor)
        targets = step.targets()
        if targets:
            step.kept = self._before_change(step, targets)

    def _outputs_behind(self, tensors: list[Tensor]) -> dict[int, Output]:
        """Return the chain outputs among `tensors`, by identity."""
        found = {}
        for tensor in tensors:
            entry = self.registry.find(tensor)
            if entry is not None and entry.node is not None:
                found[id(tensor)] = Output(entry.node, entry.index)
        return found

    def _follow_softmaxes(self, step: _Step) -> None:
        """Tell each softmax what became of its output, and note a new one."""
        seen = [
            entry.softmax
            for tensor in step.tensors
            if (entry := self.registry.find(tensor)) is not None and entry.softmax is not None
        ]
        for softmax in seen:
            softmax.consumers.append(step.name)
        softmax = seen[0] if seen else None
        if step.name.removesuffix("_") in SOFTMAXES:
            found = self.registry.find(_flat(step.output)[0])
            softmax = self.on_softmax(step.name, found.node if found is not None else None)
        if softmax is not None and len(softmax.consumers) < FOLLOWED:
            for tensor in _flat(step.output):
                if tensor.is_floating_point():
                    self.registry.entry(tensor).softmax = softmax

    def _before_change(self, step: _Step, targets: list[Tensor]) -> Held | None:
        """Save what is kept from the coming change; return the target's old self if it is needed."""
        for target in targets:
            self.registry.about_to_change(target)
            entry = self.registry.find(target)
            if entry is not None and entry.raw:
                entry.raw = False
            if not isinstance(target, nn.Parameter):
                self.parameters.pop(id(target), None)
        target = step.target()
        if not step.sources or target is None or "out" in step.kwargs:
            return None
        entry = self.registry.find(target)
        if entry is None or entry.node is None:
            return Held(target.detach().clone())
        return None

    # -- what it means ------------------------------------------------------------------------

    def _note(self, step: _Step) -> None:
        if step.kind is Kind.CONTRACTION:
            pair = two_sides(step.name, step.args, step.kwargs)
            if pair is not None and self._contraction(step, *pair):
                return
        if step.sources:
            self._follow(step)
            return
        if step.kind is Kind.REDUCTION and self._summed_product(step):
            return
        self._describe(step)
        if step.kind is Kind.PRODUCT:
            self._remember_product(step)

    def _contraction(self, step: _Step, left: Tensor, right: Tensor) -> bool:
        """Deal with a product of two tensors; False where it is an ordinary operation."""
        behind_left, behind_right = _strong(step, left), _strong(step, right)
        weights = self.is_weight(left), self.is_weight(right)
        if behind_left is None and behind_right is None:
            if all(weights) or (any(weights) and not _may_be_queries(step.name, left, weights)):
                return False
            self._start(step, left, right, weights, ())
            return True
        ready = [out for out in (behind_left, behind_right) if out is not None]
        normal = [out.node.normalised for out in ready]
        if len(ready) == 1:
            other, is_weight = (right, weights[1]) if behind_left else (left, weights[0])
            if is_weight:
                shared = behind_right is not None and left.dim() > 2 and _is_shared(left)  # noqa: PLR2004
                if normal[0] or not shared or not _may_be_queries(step.name, left, weights):
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

    def is_weight(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is a parameter, a buffer, or only rearranges such."""
        return self._parameter_name(tensor) is not None or self.registry.is_weight(tensor)

    def _parameter_name(self, tensor: Tensor) -> str | None:
        known = self.parameters.get(id(tensor))
        return known[1] if known is not None and known[0] is tensor else None

    def _start(
        self,
        step: _Step,
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
        node = self._node(step, held=held, sources={})
        node.left, node.right, node.fed = left_operand, right_operand, fed
        node.weak = any(weights)
        if attach:
            if node.weak:
                self._describe(step)
            self._attach(step, node)
        if fed:
            self.on_start(node)
        return node

    def operand(self, tensor: Tensor, *, weight: bool = False) -> Operand:
        """Keep `tensor` as q, k or v of something."""
        entry = self.registry.find(tensor)
        trail = entry.trail if entry is not None else None
        return Operand(self.registry.hold(tensor), trail, weight, id(tensor))

    def _remember_product(self, step: _Step) -> None:
        """Note an elementwise product with broadcasting: a sum may make it a contraction."""
        pair = _both(step)
        if pair is None or pair[0].shape == pair[1].shape or not pair[0].dim() or not pair[1].dim():
            return
        if self.is_weight(pair[0]) or self.is_weight(pair[1]):
            return
        shapes = _shapes(step.output)
        self.registry.entry(step.output).product = step.without_output(shapes)

    def _summed_product(self, step: _Step) -> bool:
        """Start a chain at the sum of a product of two tensors."""
        entry = self.registry.find(step.tensors[0])
        if entry is None or entry.product is None:
            return False
        product = entry.product
        entry.product = None
        left, right = product.args
        first = self._start(product, left, right, (False, False), (), attach=False)
        node = self._node(step, held={}, sources={id(step.tensors[0]): Output(first, 0)})
        node.left, node.right = first.left, first.right
        first.left = first.right = None
        self._attach(step, node)
        return True

    def _follow(self, step: _Step) -> None:
        """Add an operation to the chains of its arguments, or let go of them."""
        if step.kind is Kind.BOUNDARY or not self._may_follow(step):
            self._describe(step)
            return
        if step.kind is Kind.REDUCTION:
            for out in step.sources.values():
                if out.node.weighted is not None and self._summed(step, out.node):
                    return
        node = self._node(step)
        node.carries = frozenset().union(*(out.node.carries for out in step.sources.values()))
        if node.depth > (LONGEST_OPEN if node.carries else LONGEST):
            self._describe(step)
            return
        node.weak = all(parent.weak for parent in node.parents)
        node.normaliser = step.kind is Kind.NORMALISER or _divides_by_itself(step)
        node.normalised = node.normaliser or any(parent.normalised for parent in node.parents)
        if step.kind is Kind.PRODUCT and node.normalised:
            node.weighted = self._weighted(step)
        if node.carries and _divides_sums(step) and self.on_close(node, _flat(step.output)[0]):
            self._forget(step)
            return
        self._attach(step, node)

    def _may_follow(self, step: _Step) -> bool:
        if step.name.startswith(_WRITES_LISTS) or not _has_floats(step.output, step):
            return False
        if step.name in _MIXES:  # a mix between heads, not the next layer
            shape = step.tensors[0].shape
            return len(shape) >= 4 and tuple(_shapes(step.output)[0]) == tuple(shape)  # noqa: PLR2004
        return True

    def _weighted(self, step: _Step) -> tuple[Output, Operand] | None:
        """Recognise weights multiplied with v elementwise, the sum over keys still to come."""
        pair = _both(step)
        if pair is None or len(step.sources) != 1:
            return None
        (identity, out), = step.sources.items()
        weights, value = pair if id(pair[0]) == identity else (pair[1], pair[0])
        shape = _shapes(step.output)[0]
        size = 1
        for axis in shape:
            size *= axis
        if not out.node.normalised or size <= weights.numel() or self.is_weight(value):
            return None
        return out, self.operand(value)

    def _summed(self, step: _Step, node: Node) -> bool:
        weights, value = node.weighted or (None, None)
        if weights is None or value is None:
            return False
        return self._found(step, weights, value, self._node(step), weights_left=True)

    def _attention(
        self, step: _Step, weights: Output, value: Tensor, *, weights_left: bool
    ) -> bool:
        operand = self.operand(value)
        node = self._node(step, held={id(value): operand.held})
        return self._found(step, weights, operand, node, weights_left=weights_left)

    def _found(
        self, step: _Step, weights: Output, value: Operand, node: Node, *, weights_left: bool
    ) -> bool:
        outcome = self.on_attention(Found(weights, value, node, step.output, weights_left))
        if outcome is None:
            return False
        if outcome.open is None:
            self._forget(step)
            return True
        node.normalised = True
        node.carries = frozenset({outcome.open})
        for parent in node.parents:
            node.carries |= parent.carries
        self._attach(step, node)
        return True

    # -- book-keeping -------------------------------------------------------------------------

    def _node(
        self,
        step: _Step,
        *,
        held: dict[int, Held] | None = None,
        sources: dict[int, Output] | None = None,
    ) -> Node:
        """Write down one operation: chain values by reference to their node, other tensors held."""
        held = dict(held or {})
        if sources is None:
            sources = {key: out for key, out in step.sources.items() if key not in held}
        parents: dict[int, Node] = {id(out.node): out.node for out in sources.values()}
        for tensor in step.tensors:
            if id(tensor) in sources:
                entry = self.registry.find(tensor)
                change = self.registry.changes.get(entry.key) if entry is not None else None
                if change is not None and change.sequence > sources[id(tensor)].node.sequence:
                    parents.setdefault(id(change), change)
        target = step.target()
        if step.kept is not None and target is not None:
            held[id(target)] = step.kept

        def note(leaf: Any) -> Any:  # noqa: ANN401
            if not isinstance(leaf, Tensor):
                return leaf
            out = sources.get(id(leaf))
            if out is not None:
                return out
            known = held.get(id(leaf))
            if known is None:
                known = held[id(leaf)] = self.registry.hold(leaf)
            return known

        kwargs = {key: value for key, value in step.kwargs.items() if key != "out"}
        return Node(
            name=step.name,
            function=step.function,
            args=map_leaves(step.args, note),
            kwargs=map_leaves(kwargs, note),
            parents=tuple(parents.values()),
            source=find_source(),
            shapes=tuple(step.shapes or _shapes(step.output if step.name != "setitem" else target)),
            depth=1 + max((parent.depth for parent in parents.values()), default=0),
            target=sources.get(id(target)) if target is not None else None,
            random=step.random,
            autocast=_autocast(step.tensors[0].device.type),
        )

    def _attach(self, step: _Step, node: Node) -> None:
        """Let the outputs of `step` be known as outputs of `node`."""
        target = step.target()
        outputs = [target] if step.name == "setitem" and target is not None else _flat(step.output)
        for index, tensor in enumerate(outputs):
            entry = self.registry.entry(tensor)
            entry.node, entry.index, entry.key = node, index, storage_key(tensor)
            if not node.weak or not node.starts:
                entry.trail = None
            if target is not None and entry.key:
                self.registry.changes[entry.key] = node
        if self.keep_outputs:
            node.outputs = tuple(outputs)

    def _forget(self, step: _Step) -> None:
        """Start anew at the outputs of `step`: what follows is not part of the chain."""
        for tensor in _flat(step.output):
            entry = self.registry.entry(tensor)
            entry.node, entry.raw = None, False
            entry.trail = Trail("context", tuple(tensor.shape))

    def _describe(self, step: _Step) -> None:
        """Write down how the outputs' axes came about, and whether they are mere weights."""
        outputs = [tensor for tensor in _flat(step.output) if tensor.dim()]
        if not outputs:
            return
        if step.name == "setitem":
            return
        raw = step.name not in _MAKES_ACTIVATIONS and all(
            self.is_weight(tensor) or _is_number(tensor) for tensor in step.tensors
        )
        parents = {id(tensor): self._trail(tensor) for tensor in step.tensors}
        names = tuple(name for name in map(self._parameter_name, step.tensors) if name is not None)
        if step.kind is Kind.CONTRACTION or step.name in _MIXES:
            trail = self._projection(step, parents)
        else:
            trail = _continued(step, parents)
        for index, tensor in enumerate(outputs):
            entry = self.registry.entry(tensor)
            entry.trail = replace(
                trail, shape=tuple(tensor.shape), output_index=index, parameters=names
            )
            entry.raw, entry.node = raw, None

    def _projection(self, step: _Step, parents: dict[int, Trail | Unfollowed]) -> Trail:
        """Return the trail of features made from an activation and a weight."""
        shape = _shapes(step.output)[0]
        source, features, kept = step.tensors[0], (len(shape) - 1,), _leading(len(shape))
        if step.name in _CONVOLUTIONS:
            features, kept = (1,), ((0, 0),)
        elif step.name != "linear":
            pair = two_sides(step.name, step.args, step.kwargs)
            weights = [self.is_weight(side) for side in pair] if pair is not None else []
            if pair is None or sum(weights) != 1:
                return Trail(step.name, shape)
            at = weights.index(False)
            source = pair[at]
            pairs = pairing_of(step.name, step.args, step.kwargs, pair)
            if pairs is None:
                return Trail(step.name, shape)
            features = tuple(out for _, out in (pairs.right if at == 0 else pairs.left))
            kept = tuple((both[at], both[2]) for both in pairs.batch if both[at] >= 0)
            kept += pairs.left if at == 0 else pairs.right
        before = parents[id(source)]
        known = isinstance(before, Trail) and (before.pure or before.is_origin)
        if not known or not isinstance(before, Trail) or before.depth > _DEEPEST_PROJECTION:
            return Trail(step.name, shape, features=features)
        return Trail(
            step.name, shape, (before,), depth=before.depth + 1, features=features, kept=kept
        )

    def _trail(self, tensor: Tensor) -> Trail | Unfollowed:
        if tensor.numel() == 1:
            return Unfollowed(tuple(tensor.shape), value=tensor.detach().clone())
        entry = self.registry.find(tensor)
        if entry is not None and entry.trail is not None:
            return entry.trail
        if entry is None and not self.is_weight(tensor):
            entry = self.registry.entry(tensor)
            entry.trail = Trail("input", tuple(tensor.shape))
            return entry.trail
        return Unfollowed(tuple(tensor.shape), tensor.dtype == torch.bool)


class Outcome:
    """What was made of a find. open: number of a call whose rows are not divided by their sums yet."""

    __slots__ = ("open",)

    def __init__(self, open_call: int | None = None) -> None:
        """Say whether the call goes on."""
        self.open = open_call


class Found:
    """Attention, just noticed: the weights' place in their chain, v, and the product of both."""

    __slots__ = ("node", "output", "value", "weights", "weights_left")

    def __init__(
        self,
        weights: Output,
        value: Operand,
        node: Node,
        output: Tensor,
        weights_left: bool,  # noqa: FBT001
    ) -> None:
        """Hold the pieces together."""
        self.weights = weights
        self.value = value
        self.node = node
        self.output = output
        self.weights_left = weights_left


class _Step:
    """One operation that just ran."""

    __slots__ = (
        "args",
        "function",
        "kept",
        "kind",
        "kwargs",
        "name",
        "output",
        "plain",
        "random",
        "shapes",
        "sources",
        "tensors",
    )

    def __init__(  # noqa: PLR0913  the parts of one operation
        self,
        name: str,
        function: Callable[..., Any],
        kind: Kind,
        args: Args,
        kwargs: Kwargs,
        tensors: list[Tensor],
    ) -> None:
        self.name, self.function, self.kind = name, function, kind
        self.args, self.kwargs, self.tensors = args, kwargs, tensors
        self.sources: dict[int, Output] = {}
        self.output: Any = None
        self.plain = False  # nested and sparse tensors have no axes to follow
        self.random: RandomState | None = None
        self.kept: Held | None = None
        self.shapes: list[tuple[int, ...]] = []

    def without_output(self, shapes: list[tuple[int, ...]]) -> _Step:
        """Return the operation without the tensor that it made, which may go."""
        step = _Step(self.name, self.function, self.kind, self.args, self.kwargs, self.tensors)
        step.shapes = shapes
        return step

    def targets(self) -> list[Tensor]:
        """Return the tensors that the operation writes to."""
        out = self.kwargs.get("out")
        if out is not None:
            return list(tensors_in((out,)))
        if self.name.startswith(_WRITES_LISTS):
            return list(tensors_in(self.args[:1]))
        if changes_in_place(self.name) or self.kwargs.get("inplace") is True:
            return self.tensors[:1]
        return []

    def target(self) -> Tensor | None:
        """Return the one tensor that the operation wrote to, where it wrote to one."""
        targets = self.targets()
        return targets[0] if len(targets) == 1 else None


def _may_be_queries(name: str, left: Tensor, weights: tuple[bool, bool]) -> bool:
    """Return whether the parameter in a product may be learned queries rather than a projection."""
    if name == "einsum":
        return True
    if weights[1] or name in {"linear", "tensordot"}:
        return False
    return left.dim() <= 2 or _is_shared(left)  # noqa: PLR2004


def _is_shared(queries: Tensor) -> bool:
    """Return whether all samples have the same queries: one, or one expanded."""
    return queries.shape[0] == 1 or queries.stride(0) == 0


def _leading(rank: int) -> tuple[tuple[int, int], ...]:
    return tuple((axis, axis) for axis in range(rank - 1))


def _continued(step: _Step, parents: dict[int, Trail | Unfollowed]) -> Trail:
    """Return the trail of an operation that leaves its argument's axes readable."""
    trails = [trail for trail in parents.values() if isinstance(trail, Trail)]
    depth = 1 + max((trail.depth for trail in trails), default=0)
    keeps = step.kind is not Kind.BOUNDARY or step.name in {"layer_norm", "rms_norm"}
    if not keeps or depth > DEEPEST:
        return Trail(step.name, ())
    return Trail(
        step.name,
        (),
        map_leaves(step.args, lambda leaf: _noted(leaf, parents)),
        map_leaves(step.kwargs, lambda leaf: _noted(leaf, parents)),
        depth=depth,
        pure=step.name in LAYOUT and all(trail.pure or trail.is_origin for trail in trails),
    )


def _is_number(tensor: Tensor) -> bool:
    """Return whether `tensor` is one whole number, such as the index of an expert."""
    return tensor.numel() == 1 and not tensor.is_floating_point()


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested


def _both(step: _Step) -> tuple[Tensor, Tensor] | None:
    if len(step.args) == 2 and all(isinstance(arg, Tensor) for arg in step.args):  # noqa: PLR2004
        return step.args[0], step.args[1]
    return None


def _strong(step: _Step, tensor: Tensor) -> Output | None:
    """Return where `tensor` stands in a chain; None for a mere projection by a parameter."""
    out = step.sources.get(id(tensor))
    return None if out is None or (out.node.weak and not out.node.normalised) else out


def _divides_by_itself(step: _Step) -> bool:
    """Return whether a value of a chain is divided by another of the same chain."""
    return step.name in {"div", "div_", "rdiv"} and len(step.sources) > 1


def _divides_sums(step: _Step) -> bool:
    """Return whether summed-up contexts are divided by something of the same chain."""
    if len(step.args) < 2:  # noqa: PLR2004  dividend and divisor
        return False
    first, second = (
        step.sources.get(id(leaf)) if isinstance(leaf, Tensor) else None for leaf in step.args[:2]
    )
    if first is None or second is None or bool(first.node.carries) == bool(second.node.carries):
        return False
    if step.name in {"div", "div_"}:
        return bool(first.node.carries)
    divisor = second if first.node.carries else first
    return step.kind is Kind.PRODUCT and divisor.node.name in {"reciprocal", "rdiv", "div", "pow"}


def _flat(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output] if _is_plain(output) else []
    if isinstance(output, (tuple, list)):
        return [tensor for tensor in tensors_in(output) if _is_plain(tensor)]
    return []


def _shapes(output: Any) -> list[tuple[int, ...]]:  # noqa: ANN401
    return [tuple(tensor.shape) for tensor in _flat(output)]


def _has_floats(output: Any, step: _Step) -> bool:  # noqa: ANN401
    if step.name == "setitem":
        return True
    return any(tensor.is_floating_point() or tensor.is_complex() for tensor in _flat(output))


def _noted(leaf: Any, parents: dict[int, Trail | Unfollowed]) -> Any:  # noqa: ANN401
    return parents[id(leaf)] if isinstance(leaf, Tensor) else leaf


def _autocast(device_type: str) -> Autocast | None:
    if not torch.amp.is_autocast_available(device_type):
        return None
    if torch.is_autocast_enabled(device_type):
        return Autocast(device_type, torch.get_autocast_dtype(device_type))
    return None
