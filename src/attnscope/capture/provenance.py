"""Chains of operations that start at a product of two tensors: what may become attention."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch import Tensor

from attnscope.calls.held import Held
from attnscope.calls.program import (
    Autocast,
    Operation,
    Program,
    RandomState,
    Value,
    map_leaves,
)
from attnscope.calls.source import Source
from attnscope.capture.functions import changes_in_place
from attnscope.capture.trail import Trail

LONGEST = 160
"""Operations after which a chain is given up: scores become weights in far fewer."""

LONGEST_OPEN = 40_000
"""The same for a chain that sums up chunks of keys, some ten operations each."""

_NEVER = sys.maxsize

_sequence = itertools.count()


@dataclass(frozen=True, slots=True)
class Output:
    """A reference, inside recorded arguments, to an output of an earlier node."""

    node: Node
    index: int


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a contraction: the tensor, how its axes came about, the node that made it."""

    held: Held
    trail: Trail | None
    weight: bool  # a parameter, or only a rearrangement of parameters


@dataclass(slots=True, eq=False)
class Node:
    """One recorded operation of a chain."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parents: tuple[Node, ...]
    source: Source
    shapes: tuple[tuple[int, ...], ...]
    depth: int
    target: Output | None = None
    random: RandomState | None = None
    autocast: Autocast | None = None
    graded: bool = False
    left: Operand | None = None  # set where the node is a contraction that starts a chain
    right: Operand | None = None
    weak: bool = False  # every start behind it has a parameter as one side
    normalised: bool = False  # a normaliser lies between the start and here
    normaliser: bool = False  # this node is one
    pooled: bool = False  # every start behind it weighs values by a softmax that is no attention
    weighted: tuple[Output, Operand] | None = None  # weights times v, the sum still to come
    fed: tuple[Node, ...] = ()  # chains that entered a contraction without a normaliser
    carries: frozenset[int] = frozenset()  # calls whose context this is, the division still to come
    outputs: tuple[Tensor, ...] = ()  # kept on request
    unsummed: int | None = None  # the first product behind it on a way without sums, once asked for
    sequence: int = field(default_factory=lambda: next(_sequence))

    @property
    def writes(self) -> bool:
        """Whether the operation writes to its first argument."""
        return changes_in_place(self.name) or self.kwargs.get("inplace") is True

    def values(self) -> set[Output]:
        """Return the outputs of earlier nodes that the arguments refer to."""
        found: set[Output] = set()
        map_leaves((self.args, self.kwargs), lambda leaf: _collect(leaf, found))
        return found

    @property
    def starts(self) -> bool:
        """Whether this is a product of two tensors, where a chain starts."""
        return self.left is not None


def _collect(leaf: Any, found: set[Output]) -> Any:
    if isinstance(leaf, Output):
        found.add(leaf)
    return leaf


def ancestors(nodes: Iterable[Node], *, since: int = 0) -> list[Node]:
    """Return `nodes` and all they come from, in the order they happened.

    since: the sequence number of the first node that matters; what came before is not looked at.
    """
    seen: dict[int, Node] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.sequence >= since and id(node) not in seen:
            seen[id(node)] = node
            waiting.extend(node.parents)
    return sorted(seen.values(), key=lambda node: node.sequence)


def path(start: Node, last: Node) -> list[Node]:
    """Return the nodes on the ways from `start` to `last`, both included, in order."""
    reached, found = {id(start)}, []
    for node in ancestors([last], since=start.sequence):
        if node is start or any(id(parent) in reached for parent in node.parents):
            reached.add(id(node))
            found.append(node)
    return found


def nearest(last: Node, final: Node) -> list[Node]:
    """Return what `last` and `final` come from, from the first product on that led there unsummed.

    What lies before is a history that only sums or maxima of earlier products came from.
    """
    first = _first_unsummed(last)
    return ancestors([last, final], since=first if first < _NEVER else 0)


def _first_unsummed(last: Node) -> int:
    """Return the earliest of `unsummed_starts`: chunks have long histories, gone through once."""
    waiting = [last]
    while waiting:
        node = waiting[-1]
        behind = node.parents if node.starts or node.name not in _SUMS else ()
        missing = [parent for parent in behind if parent.unsummed is None]
        if node.unsummed is None and missing:
            waiting += missing
            continue
        waiting.pop()
        own = node.sequence if node.starts else _NEVER
        known = (parent.unsummed for parent in behind if parent.unsummed is not None)
        node.unsummed = min(own, *known) if behind else own
    return _NEVER if last.unsummed is None else last.unsummed


_SUMS = frozenset("sum mean amax amin max min logsumexp norm prod std var argmax".split())


def leads_to(start: Node, last: Node) -> bool:
    """Return whether `last` comes from `start` on a way that sums nothing up."""
    return _reaches(start, last, lambda node: node.name in _SUMS)


def unsummed_starts(last: Node) -> list[Node]:
    """Return the products that `last` comes from on a way that sums nothing up."""
    waiting, seen, found = [last], set(), []
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.starts:
            found.append(node)
        if node.starts or node.name not in _SUMS:
            waiting.extend(node.parents)
    return found


def bypasses(start: Node, last: Node) -> bool:
    """Return whether `last` comes from `start` past every normaliser, as a residual does."""
    return _reaches(start, last, lambda node: node.normaliser)


def _reaches(start: Node, last: Node, closed: Callable[[Node], bool]) -> bool:
    waiting, seen = [last], set()
    while waiting:
        node = waiting.pop()
        if node is start:
            return True
        if id(node) not in seen and not closed(node):
            seen.add(id(node))
            waiting.extend(node.parents)
    return False


@dataclass(slots=True)
class Chain:
    """A program made from nodes, and where each node's outputs are in it."""

    program: Program
    nodes: list[Node]
    positions: dict[tuple[int, int], int]

    def position(self, node: Node, index: int = 0) -> int:
        """Return the program's value for output `index` of `node`."""
        return self.positions[(id(node), index)]

    def changes_of(self, output: Output) -> list[int]:
        """Return what has to run as well for `output` to hold what its last reader found.

        That is more than what made it where its memory was written to through a view.
        """
        made = {id(node) for node in ancestors([output.node])}
        for node in reversed(self.nodes):
            read = node.values()
            if output in read:
                made.update(id(known.node) for known in read)
                later = [parent for parent in node.parents if id(parent) not in made]
                return [self.position(p, i) for p in later for i in range(len(p.shapes))]
        return []

    def value(self, output: Output, given: Mapping[int, Tensor] | None = None) -> Tensor:
        """Run the program as far as `output`, as its last reader found it."""
        position = self.position(output.node, output.index)
        return self.program.run([position, *self.changes_of(output)], given)[position]


Before: TypeAlias = Mapping[tuple[int, int], Held]
"""What is known of outputs of nodes: by the identity of the node and the number of the output."""


def to_chain(last: Iterable[Node], *, since: int = 0, before: Before | None = None) -> Chain:
    """Write the history of `last` as a program.

    since: the sequence number of its first node; before: the outputs that it takes of earlier ones.
    """
    nodes = ancestors(last, since=since)
    numbers = itertools.count()
    positions: dict[tuple[int, int], int] = {}
    inputs: dict[int, Held] = {}
    known: dict[int, int] = {}

    def place(leaf: Any) -> Any:
        if isinstance(leaf, Output):
            made = positions.get((id(leaf.node), leaf.index))
            if made is not None:
                return Value(made)
            leaf = (before or {})[(id(leaf.node), leaf.index)]
        if isinstance(leaf, Held):
            number = known.get(id(leaf))
            if number is None:
                number = known[id(leaf)] = next(numbers)
                inputs[number] = leaf
            return Value(number)
        return leaf

    operations = []
    for node in nodes:
        args = map_leaves(node.args, place)
        kwargs = map_leaves(node.kwargs, place)
        target = place(node.target).index if node.target is not None else None
        if target is None and node.writes and isinstance(args[0], Value):
            target = args[0].index
        defines = tuple(next(numbers) for _ in node.shapes)
        for index, number in enumerate(defines):
            positions[(id(node), index)] = number
        needs = tuple(
            positions[(id(parent), index)]
            for parent in node.parents
            for index in range(len(parent.shapes))
            if (id(parent), index) in positions
        )
        operations.append(
            Operation(
                node.name,
                node.function,
                args,
                kwargs,
                defines,
                needs,
                target,
                node.random,
                node.autocast,
                node.graded,
                node.source,
                node.shapes,
            )
        )
    return Chain(Program(inputs, tuple(operations)), nodes, positions)
