"""Writes operations down as nodes of chains, and which tensors are their outputs."""

from __future__ import annotations

import itertools
from typing import Any

from torch import Tensor

from attnscope.calls.held import Held, storage_key
from attnscope.calls.program import map_leaves
from attnscope.capture.place import find_source
from attnscope.capture.provenance import Node, Output
from attnscope.capture.registry import Registry
from attnscope.capture.step import Step, autocast_on, flat, shapes_of
from attnscope.capture.trail import Trail


class Writer:
    """Makes nodes and tells the registry about them."""

    def __init__(self, registry: Registry, *, keep_outputs: bool) -> None:
        """Write into `registry`; keep_outputs: let nodes keep the tensors that they made."""
        self._registry = registry
        self._keep_outputs = keep_outputs

    def sources(self, step: Step) -> dict[int, Output]:
        """Return the chain outputs among what an operation takes, by identity."""
        found = {}
        for tensor in step.tensors:
            entry = self._registry.find(tensor)
            if entry is not None and entry.node is not None:
                found[id(tensor)] = Output(entry.node, entry.index)
        return found

    def rest(self, step: Step, node: Node) -> Node | None:
        """Write down what one function does after the part of it that `node` is; None: nothing."""
        last = None
        for before, part in itertools.pairwise([step, *step.rest]):
            last = self.node(part, sources={id(before.output): Output(last or node, 0)})
        return last

    def node(
        self,
        step: Step,
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
                entry = self._registry.find(tensor)
                change = self._registry.changes.get(entry.key) if entry is not None else None
                if change is not None and change.sequence > sources[id(tensor)].node.sequence:
                    parents.setdefault(id(change), change)
        target = step.target()
        if step.kept is not None and target is not None:
            held[id(target)] = step.kept

        def note(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            out = sources.get(id(leaf))
            if out is not None:
                return out
            known = held.get(id(leaf))
            if known is None:
                known = held[id(leaf)] = self._registry.hold(leaf)
            return known

        kwargs = {key: value for key, value in step.kwargs.items() if key != "out"}
        return Node(
            name=step.name,
            function=step.function,
            args=map_leaves(step.args, note),
            kwargs=map_leaves(kwargs, note),
            parents=tuple(parents.values()),
            source=find_source(),
            shapes=tuple(
                step.shapes or shapes_of(step.output if step.name != "setitem" else target)
            ),
            depth=1 + max((parent.depth for parent in parents.values()), default=0),
            target=sources.get(id(target)) if target is not None else None,
            random=step.random,
            graded=step.graded,
            autocast=autocast_on(step.tensors[0].device.type),
        )

    def attach(self, step: Step, node: Node) -> None:
        """Let the outputs of `step` be known as outputs of `node`."""
        target = step.target()
        outputs = [target] if step.name == "setitem" and target is not None else flat(step.output)
        for index, tensor in enumerate(outputs):
            entry = self._registry.entry(tensor)
            entry.node, entry.index, entry.key = node, index, storage_key(tensor)
            if not node.weak or node.normalised:
                entry.trail = None
            if target is not None and entry.key:
                self._registry.changes[entry.key] = node
        if self._keep_outputs and not step.stands_in:
            node.outputs = tuple(outputs)

    def forget(self, step: Step) -> None:
        """Start anew at the outputs of `step`: what follows is not part of the chain."""
        for tensor in flat(step.output):
            entry = self._registry.entry(tensor)
            entry.node, entry.raw = None, False
            entry.trail = Trail("context", tuple(tensor.shape))
