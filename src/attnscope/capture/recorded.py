"""Evidence of hand-written attention: the recorded operations themselves, run again on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from attnscope.calls.arrangement import Arrangement
from attnscope.calls.evidence import Evidence, Sizes, Spot
from attnscope.calls.exact import exact
from attnscope.calls.held import Held, has_values
from attnscope.calls.program import Program
from attnscope.calls.recipe import Recipe
from attnscope.calls.shapes import ShapeRow
from attnscope.calls.tolerance import largest_relative
from attnscope.capture.gradients import Cotangent
from attnscope.capture.naming import named, unnamed
from attnscope.capture.provenance import Chain, Node, Operand, Output, to_chain
from attnscope.capture.reading.axes import AxesReading
from attnscope.capture.reading.kvindex import kv_index, picked, summed
from attnscope.capture.reading.recipe import Reading, read_recipe
from attnscope.capture.reading.sheet import axis_names, shape_rows
from attnscope.capture.reading.stages import Stages, find_stages
from attnscope.capture.reading.trails import scale_of
from attnscope.capture.recorded_gradients import gradient_of
from attnscope.errors import ReplayError

_ADDING = frozenset("baddbmm addbmm addmm addmv".split())
"""Products that add something of their own: q·k itself is nowhere."""


@dataclass(slots=True, eq=False)
class Product:
    """One product of the weights with values: its node, v, the real output, its gradient.

    last: the end of the function that multiplied them, where it went on (an einsum with the output
    projection as an operand); the real output is then that, and the context was never there.
    """

    node: Node
    value: Operand
    output: Held
    cotangent: Cotangent
    last: Node | None = None

    @property
    def end(self) -> Node:
        """The operation that made the real output."""
        return self.last or self.node


def _whole_chain(evidence: RecordedEvidence) -> Chain:
    return to_chain(evidence.ends)


@dataclass(eq=False)
class RecordedEvidence(Evidence):
    """A program from q·k to the context, with the names of its axes.

    start: the product q·k; name_axes: reads its axes; weights: what met v; products: one or more
    products with values; read: how the recipe is read; write_chain: how the program is written.
    """

    start: Node
    name_axes: Callable[[], AxesReading]
    weights: Output
    products: list[Product] = field(default_factory=list)
    read: Callable[[RecordedEvidence], Reading] = read_recipe
    write_chain: Callable[[RecordedEvidence], Chain] = _whole_chain

    @cached_property
    def axes(self) -> AxesReading:
        """Names of the axes of all tensors."""
        return self.name_axes()

    @cached_property
    def chain(self) -> Chain:
        """The recorded operations as a program."""
        return self.write_chain(self)

    @property
    def ends(self) -> list[Node]:
        """The operations that the program ends with."""
        return [self.weights.node, *(product.end for product in self.products)]

    @cached_property
    def stages(self) -> Stages:
        """Where in the program scores enter the normaliser and weights leave it."""
        return find_stages(self.start, self.weights, self.axes)

    @cached_property
    def kv_index(self) -> tuple[int, ...] | None:
        """The kv head of each query head, where k and v were picked by a table; else None."""
        heads = self.axes.sizes.heads
        index = kv_index(self.k_operand.trail, heads)
        if index is None or index != kv_index(self.products[0].value.trail, heads):
            return None
        return index

    @cached_property
    def sizes(self) -> Sizes:
        """Sizes in the canonical layout."""
        sizes = self.axes.sizes
        if self.kv_index is None:
            return sizes
        return replace(sizes, kv_heads=len(set(self.kv_index)))

    def _once(self, tensor: Tensor) -> Tensor:
        return tensor if self.kv_index is None else picked(tensor, self.kv_index)

    @cached_property
    def reading(self) -> Reading:
        """The recorded operations, read."""
        return self.read(self)

    @property
    def recipe(self) -> Recipe:
        """How scores came from q·k and weights from scores."""
        return self.reading.recipe

    @property
    def q_operand(self) -> Operand:
        """The operand that holds q."""
        side = self.start.right if self.axes.keys_left else self.start.left
        assert side is not None  # noqa: S101  a start has both sides
        return side

    @property
    def k_operand(self) -> Operand:
        """The operand that holds k."""
        side = self.start.left if self.axes.keys_left else self.start.right
        assert side is not None  # noqa: S101  a start has both sides
        return side

    def value(self, name: str) -> Tensor:
        """Return one tensor in the canonical layout."""
        with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
            return self._value(name)

    def _value(self, name: str) -> Tensor:
        if name in {"scores", "weights"}:
            return self._stage(name)
        held, arrangement = self.kept_as(name)
        return self._read(name, arrangement, held.tensor)

    def kept_as(self, name: str) -> tuple[Held, Arrangement]:
        """Return the model's own tensor and how it is arranged."""
        first = self.products[0]
        if name == "context":
            held = (
                first.output
                if first.last is None
                else Held(self.chain.value(Output(first.node, 0)))
            )
            return held, named(self.axes.context, name, held)
        operand = {"q": self.q_operand, "k": self.k_operand, "v": first.value}[name]
        own = {"q": self.axes.q, "k": self.axes.k, "v": self.axes.v}[name]
        return operand.held, named(own, name, operand.held)

    def _scale(self, name: str) -> Tensor | float:
        """Return what was multiplied into q or k before they met."""
        operands = {"q": self.q_operand, "k": self.k_operand}
        return scale_of(operands[name].trail) if name in operands else 1.0

    def _rows(self, name: str) -> slice:
        """Return the rows of q or k whose products the weights are left with; all rows of v."""
        queries, keys = self.axes.cut
        return {"q": queries, "k": keys, "v": slice(None)}[name]

    def _read(self, name: str, arrangement: Arrangement, tensor: Tensor) -> Tensor:
        canonical = arrangement.canonical(tensor)
        if name == "context":
            return canonical
        canonical, scale = self.spread(canonical[:, :, self._rows(name)]), self._scale(name)
        if isinstance(scale, Tensor) or scale != 1.0:
            canonical = canonical / scale
        return self._all_heads(canonical) if name == "q" else self._once(canonical)

    def _write(
        self, name: str, arrangement: Arrangement, before: Tensor, canonical: Tensor
    ) -> Tensor:
        """Put canonical values where they belong in a copy of `before`."""
        if name == "context":
            return arrangement.restore(canonical)
        if name != "q" and self.kv_index is not None:
            canonical = canonical[:, list(self.kv_index)]
        canonical = canonical * self._scale(name)
        own = arrangement.canonical(before).to(canonical.dtype).clone()
        rows = self._rows(name)
        sizes = own[:, :, rows].shape
        own[:, :, rows] = canonical[: sizes[0], : sizes[1]]
        return arrangement.restore(own)

    def spot(self, name: str) -> Spot | None:
        """Return where a tensor lies in the model's run; None: axes unnamed, or not kept.

        Scores and weights lie there where their tensors were kept, and no column is left out.
        """
        if name in {"scores", "weights"}:
            return self._inner_spot(name)
        if name == "context" and self.products[0].last is not None:
            return None
        try:
            held, arrangement = self.kept_as(name)
        except ReplayError:
            return None

        def read(tensor: Tensor) -> Tensor:
            return self._read(name, arrangement, tensor)

        def write(tensor: Tensor) -> Tensor:
            return self._write(name, arrangement, held.tensor, tensor)

        def read_gradient(tensor: Tensor) -> Tensor:
            return self.read_gradient(name, arrangement, tensor)

        return Spot(held, read, write, read_gradient)

    def _inner_spot(self, name: str) -> Spot | None:
        output, arrangement = self.place_of(name)
        kept = output.node.outputs
        whole = arrangement.shape[2:] == (self.sizes.queries, self.sizes.keys)
        if not kept or not whole or output.node.writes:
            return None
        read = arrangement.canonical
        return Spot(Held(kept[output.index]), read, arrangement.restore, read)

    def read_gradient(self, name: str, arrangement: Arrangement, gradient: Tensor) -> Tensor:
        """Return a gradient of q, k, v or context, canonical, copies added up."""
        canonical = arrangement.canonical(gradient, add_copies=True)
        if name == "context":
            return canonical
        canonical = self.spread(canonical)[:, :, self._rows(name)]
        if name != "q" and self.kv_index is not None:
            canonical = summed(canonical, self.kv_index)
        return canonical * self._scale(name)

    def spread(self, tensor: Tensor) -> Tensor:
        """Give a tensor that all samples share its batch axis."""
        if tensor.shape[0] == 1 and self.sizes.batch > 1:
            return tensor.expand(self.sizes.batch, *tensor.shape[1:])
        return tensor

    def cut(self, canonical: Tensor) -> Tensor:
        """Return what the weights are left with of a matrix (…, queries, keys) of the product."""
        whole, (queries, keys) = self.axes.raw.shape, self.axes.cut
        if canonical.shape[-2] == whole[2]:
            canonical = canonical[..., queries, :]
        return canonical[..., keys] if canonical.shape[-1] == whole[3] else canonical

    def _all_heads(self, q: Tensor) -> Tensor:
        """Give queries that all heads share their heads axis."""
        return q.expand(-1, self.sizes.heads, -1, -1) if q.shape[1] == 1 else q

    def _stage(self, name: str) -> Tensor:
        output = self.reading.scores if name == "scores" else self.reading.weights
        kept = output.node.outputs
        arrangement = self.axes.arrange(output.node, output.index)
        sizes = self.sizes
        if 0 in self.start.shapes[0]:  # nothing in it, whatever its axes are
            shape = (sizes.batch, sizes.heads, sizes.queries, sizes.keys)
            return self.q_operand.held.tensor.new_empty(shape)
        if arrangement is None:
            raise unnamed(name, output.node.shapes[output.index])
        tensor = kept[output.index].detach() if kept else self.chain.value(output)
        return self.keys_of(self.cut(arrangement.canonical(tensor)))

    def keys_of(self, canonical: Tensor) -> Tensor:
        """Leave out the columns that belong to no key."""
        if canonical.shape[-1] <= self.sizes.keys:
            return canonical
        before = self.stages.before
        return canonical[..., before : before + self.sizes.keys]

    def weight_blocks(self) -> Iterator[Tensor]:
        """Yield the weights; hand-written attention makes them in one piece."""
        yield self.value("weights")

    def replay_error(self) -> float | None:
        """Run the recorded operations on the recorded inputs and compare every context."""
        if not all(has_values(product.output.raw) for product in self.products):
            return None
        wanted = [self.chain.position(product.end) for product in self.products]
        with torch.no_grad():
            values = self.chain.program.run(wanted, graded=True)
            return max(
                largest_relative(values[position], product.output.tensor)
                for position, product in zip(wanted, self.products, strict=True)
            )

    @cached_property
    def _exact(self) -> Program:
        return exact(self.chain.program)

    def rerun(self, name: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Run the recorded operations in float64 on other q, k and v."""
        given = {}
        for one, tensor in (("q", q), ("k", k), ("v", v)):
            spot = self.spot(one)
            if spot is None:
                raise unnamed(one, self.products[0].value.held.shape)
            given[self.chain.program.position_of(spot.held)] = spot.write(tensor.double())
        if name == "raw_scores" and self.start.name in _ADDING:
            return self.recipe.raw_scores(q.double(), k.double())
        output, arrangement = self.place_of(name)
        position = self.chain.position(output.node, output.index)
        wanted = [position, *self.chain.changes_of(output)]
        with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
            tensor = self._exact.run(wanted, given)[position]
            if name == "context":
                return arrangement.canonical(tensor)
            canonical = self.keys_of(self.cut(arrangement.canonical(tensor)))
            scale = self._scale("q") * self._scale("k") if name == "raw_scores" else 1.0
            return canonical / scale

    def place_of(self, name: str) -> tuple[Output, Arrangement]:
        """Return where a stage is in the chain, and how it is arranged."""
        first = self.products[0]
        if name == "context":
            return Output(first.node, 0), self.kept_as(name)[1]
        if name == "raw_scores":
            return Output(self.start, 0), self.axes.raw
        output = self.reading.scores if name == "scores" else self.weights
        arrangement = self.axes.arrange(output.node, output.index)
        if arrangement is None:
            raise unnamed(name, output.node.shapes[output.index])
        return output, arrangement

    def gradient(self, name: str) -> Tensor:
        """Run the recorded operations under autograd from the recorded gradient of the context."""
        return gradient_of(self, name)

    def context_axes(self) -> tuple[str, ...]:
        """Return what each axis of the real output is."""
        if self.axes.context is None:
            return ("?",) * len(self.products[0].output.shape)
        return axis_names(self.axes.context, ("batch", "heads", "queries", "value_dim"))

    def shapes(self) -> tuple[ShapeRow, ...]:
        """Return one row a step, from the projections to the context."""
        return shape_rows(self)
