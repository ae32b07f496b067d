"""What is known about live tensors, kept beside them and gone with them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from torch import Tensor, nn

from attnscope.calls.held import Held, storage_key

if TYPE_CHECKING:
    from attnscope.capture.provenance import Node
    from attnscope.capture.softmaxes import Softmax
    from attnscope.capture.step import Step
    from attnscope.capture.trail import Trail


class Entry:
    """What is known about one tensor: how its axes came about, its place in a chain of scores."""

    __slots__ = (
        "added",
        "index",
        "key",
        "node",
        "product",
        "raw",
        "reference",
        "softmax",
        "trail",
        "weighs",
    )

    def __init__(self, reference: weakref.ref[Tensor]) -> None:
        """Start with nothing known."""
        self.reference = reference
        self.trail: Trail | None = None
        self.node: Node | None = None
        self.index = 0  # which output of the node
        self.raw = False  # made from parameters by rearranging them: a weight, not an activation
        self.softmax: Softmax | None = None  # the softmax that its values come from
        self.weighs = False  # the output of a softmax outside of every chain, at most masked
        self.added: int | None = None  # products with parameters since two sides were added up
        self.product: Step | None = None  # the elementwise product that made it
        self.key = 0  # address of the memory, where a node is known


class Registry:
    """Entries by tensor identity. A dead tensor's entry leaves with it."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: dict[int, Entry] = {}
        self.changes: dict[int, Node] = {}  # memory → the last recorded operation that wrote to it
        self._holds: dict[int, weakref.WeakSet[Held]] = {}

    def find(self, tensor: Tensor) -> Entry | None:
        """Return what is known about `tensor`."""
        entry = self._entries.get(id(tensor))
        if entry is not None and entry.reference() is tensor:
            return entry
        return None

    def entry(self, tensor: Tensor) -> Entry:
        """Return the entry of `tensor`, made where there was none."""
        entry = self.find(tensor)
        if entry is None:
            identity = id(tensor)

            def leave(dead: weakref.ref[Tensor], entries: dict[int, Entry] = self._entries) -> None:
                known = entries.get(identity)
                if known is not None and known.reference is dead:
                    del entries[identity]

            entry = self._entries[identity] = Entry(weakref.ref(tensor, leave))
        return entry

    def is_weight(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is a parameter or only a rearrangement of parameters."""
        if isinstance(tensor, nn.Parameter):
            return True
        entry = self.find(tensor)
        return entry is not None and entry.raw

    def is_normalised(self, tensor: Tensor) -> bool:
        """Return whether `tensor` comes from products through a normaliser, as weights do."""
        entry = self.find(tensor)
        return entry is not None and entry.node is not None and entry.node.normalised

    def weighs(self, tensor: Tensor) -> bool:
        """Return whether `tensor` left a softmax whose scores come from no product of two."""
        entry = self.find(tensor)
        return entry is not None and entry.weighs

    def hold(self, tensor: Tensor) -> Held:
        """Keep `tensor` by reference, to be copied before it is changed in place."""
        key = storage_key(tensor)
        if not key:
            return Held(tensor)
        holds = self._holds.setdefault(key, weakref.WeakSet())
        held = next((known for known in holds if known.is_of(tensor)), None)
        if held is None:
            held = Held(tensor)
            holds.add(held)
        return held

    def watch(self, held: Held) -> None:
        """Copy what `held` keeps before it is changed in place."""
        key = storage_key(held.raw)
        if key:
            self._holds.setdefault(key, weakref.WeakSet()).add(held)

    def about_to_change(self, tensor: Tensor) -> None:
        """Copy every kept tensor that shares memory with `tensor`."""
        if not self._holds:
            return
        for held in self._holds.pop(storage_key(tensor), ()):
            held.freeze()

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self.changes.clear()
        self._holds.clear()
