"""Evidence of attention over chunks of the keys, summed up and divided at the end (online softmax).

Each chunk is a product of unnormalised weights with its values; what was recorded for them becomes
one call, proven by the operations as far as the final division.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from attnscope.calls.broadcasting import repeat_kv
from attnscope.calls.evidence import Evidence, Sizes, Spot
from attnscope.calls.held import Held, has_values
from attnscope.calls.mask import Mask
from attnscope.calls.program import map_leaves
from attnscope.calls.recipe import Recipe
from attnscope.calls.shapes import ShapeRow
from attnscope.calls.tolerance import largest_relative, replay
from attnscope.capture.gradients import Cotangent
from attnscope.capture.provenance import Chain, Node, Output, ancestors, path, to_chain
from attnscope.capture.reading.recipe import Reading, read_chunk, read_first_chunk
from attnscope.capture.reading.trails import scale_of
from attnscope.capture.recorded import RecordedEvidence
from attnscope.capture.recorded_gradients import gradient_through_scores

_ENDS = frozenset({"softmax", "log_softmax", "logsumexp"})


def is_open(nodes: list[Node]) -> bool:
    """Return whether weights are exponentials that nothing has divided by their sum."""
    names = {node.name.removesuffix("_") for node in nodes}
    divided = any(node.name in {"div", "div_"} and node.normaliser for node in nodes)
    return "exp" in names and not names & _ENDS and not divided


_PRODUCTS = frozenset("matmul rmatmul bmm mm".split())
"""Products that nothing but their two operands enters."""


def _way(part: RecordedEvidence) -> object:
    """Return what tells how scores came from q·k; None where other tensors joined them."""
    scales = [scale_of(side.trail) for side in (part.q_operand, part.k_operand)]
    if part.start.name not in _PRODUCTS or any(isinstance(scale, Tensor) for scale in scales):
        return None
    steps: list[object] = [part.sizes, *scales, part.kv_index, part.axes.expansion]
    for node in path(part.start, part.stages.scores.node)[1:]:
        leaves: list[object] = []
        map_leaves((node.args, node.kwargs), leaves.append)
        joined = [leaf for leaf in leaves if isinstance(leaf, (Held, Tensor))]
        if joined or len(node.parents) > 1 or node.random is not None:
            return None
        plain = [repr(leaf) for leaf in leaves if not isinstance(leaf, Output)]
        steps.append((node.name, node.shapes, *plain))
    return tuple(steps)


@dataclass(eq=False)
class ChunkedEvidence(Evidence):
    """Several recorded products over chunks of the keys, and the division that ends them."""

    parts: list[RecordedEvidence]
    node: Node
    output: Held
    cotangent: Cotangent

    def __post_init__(self) -> None:
        """Let each chunk hand out its scores before a running maximum was subtracted."""
        self._readings: dict[object, Reading] = {}
        for part in self.parts:
            for known in ("chain", "reading"):
                part.__dict__.pop(known, None)
            part.read, part.write_chain = self._read_part, self._chain_of

    def fits(self) -> bool:
        """Return whether the chunks share queries and differ in keys alone."""
        first = self.parts[0]
        if any(part.axes.context is None or part.axes.v is None for part in self.parts):
            return False
        shapes = {(p.sizes.batch, p.sizes.heads, p.sizes.queries) for p in self.parts}
        same = len({part.q_operand.held.shape for part in self.parts}) == 1
        return len(shapes) == 1 and same and first.products[0].output.shape == self.output.shape

    @cached_property
    def chain(self) -> Chain:
        """The recorded operations as a program."""
        return to_chain([self.node])

    @cached_property
    def sizes(self) -> Sizes:
        """Sizes in the canonical layout."""
        return replace(self.parts[0].sizes, keys=sum(part.sizes.keys for part in self.parts))

    @cached_property
    def recipe(self) -> Recipe:
        """The recipes of the chunks as one; a part on which they disagree is unknown."""
        recipes = [part.recipe for part in self.parts]
        first = recipes[0]
        unknown = {part for recipe in recipes for part in recipe.unknown if part != "normaliser"}
        for name in ("scale", "softcap"):
            values = [getattr(recipe, name) for recipe in recipes]
            if any(isinstance(value, Tensor) or value != values[0] for value in values):
                unknown.add(name)
        if any(recipe.bias is not None for recipe in recipes):
            unknown.add("bias")
        named = "softmax" if self._is_softmax() else "unknown"
        if named == "unknown":
            unknown.add("normaliser")
        return replace(
            first,
            mask=self._mask(recipes),
            scale=None if "scale" in unknown else first.scale,
            normaliser=named,
            normaliser_axis="keys" if named == "softmax" else "unknown",
            unknown=tuple(sorted(unknown)),
        )

    def _read_part(self, part: RecordedEvidence) -> Reading:
        """Read one chunk, or take what was read of one that went the very same way."""
        way = _way(part)
        known = self._readings.get(way) if way is not None else None
        if known is None:
            known = read_first_chunk(part) if part is self.parts[0] else read_chunk(part)
            self._readings[way] = known
        return replace(known, scores=part.stages.scores, weights=part.stages.weights)

    def _chain_of(self, part: RecordedEvidence) -> Chain:
        """Write one chunk as a program that takes the running maximum as it was, where it can."""
        if self._before is None:
            return to_chain(part.ends)
        return to_chain(part.ends, since=part.start.sequence, before=self._before)

    @cached_property
    def _before(self) -> dict[tuple[int, int], Held] | None:
        """What chunks take of earlier ones; None where memory was written to, so it may be gone."""
        wanted: dict[tuple[int, int], int] = {}
        for part in self.parts:
            first = part.start.sequence
            for node in ancestors(part.ends, since=first):
                if node.writes or node.target is not None:
                    return None
                for output in node.values():
                    if output.node.sequence < first:
                        key = (id(output.node), output.index)
                        wanted[key] = self.chain.position(output.node, output.index)
        if not wanted:
            return {}
        with torch.no_grad():
            values = self.chain.program.run(wanted.values())
        return {key: Held(values[position]) for key, position in wanted.items()}

    def _mask(self, recipes: list[Recipe]) -> Mask:
        if not any(recipe.mask.hides for recipe in recipes):
            return Mask.nothing()
        sizes = self.sizes
        shape = (sizes.batch, sizes.heads, sizes.queries)
        dense = [
            recipe.mask.dense(sizes.queries, part.sizes.keys).expand(*shape, part.sizes.keys)
            for recipe, part in zip(recipes, self.parts, strict=True)
        ]
        return Mask.from_tensor(torch.cat(dense, -1))

    def _is_softmax(self) -> bool:
        context = self.value("weights") @ repeat_kv(self.value("v"), self.sizes.heads)
        actual = self.value("context")
        bound = replay(actual.dtype, self.sizes.keys, self.sizes.head_dim)
        return largest_relative(context, actual) <= bound

    def value(self, name: str) -> Tensor:
        """Return one tensor in the canonical layout."""
        if name == "q":
            return self.parts[0].value("q")
        if name in ("k", "v"):
            return torch.cat([part.value(name) for part in self.parts], 2)
        if name == "scores":
            return torch.cat([part.value("scores") for part in self.parts], -1)
        if name == "weights":
            return self.value("scores").softmax(-1)
        return self._context(self.output.tensor)

    def _context(self, tensor: Tensor) -> Tensor:
        context = self.parts[0].axes.context
        assert context is not None  # noqa: S101  `fits` has asked
        return context.canonical(tensor)

    def spot(self, name: str) -> Spot | None:
        """Return where the context lies; k and v are in pieces."""
        if name != "context":
            return self.parts[0].spot(name) if name == "q" else None
        arrangement = self.parts[0].axes.context
        if arrangement is None:
            return None
        return Spot(self.output, arrangement.canonical, arrangement.restore, arrangement.canonical)

    def weight_blocks(self) -> Iterator[Tensor]:
        """Yield the weights in one piece."""
        yield self.value("weights")

    def replay_error(self) -> float | None:
        """Run the recorded operations as far as the division and compare."""
        if not has_values(self.output.raw):
            return None
        position = self.chain.position(self.node)
        with torch.no_grad():
            return largest_relative(
                self.chain.program.run([position], graded=True)[position], self.output.tensor
            )

    def rerun(self, name: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Follow the recipe of all chunks together in float64 with other q, k and v."""
        q, k, v = q.double(), k.double(), v.double()
        with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
            if name == "raw_scores":
                return q @ repeat_kv(k, self.sizes.heads).mT
            if name == "scores":
                return self.recipe.scores(q, k)
            weights = self.recipe.weights(q, k)
            return weights if name == "weights" else weights @ repeat_kv(v, self.sizes.heads)

    def gradient(self, name: str) -> Tensor:
        """Derive a gradient from that of the final context."""
        cotangent = self._context(self.cotangent.tensor())
        if name == "context":
            return cotangent
        with torch.inference_mode(mode=False), torch.enable_grad():
            leaves = {
                one: self.value(one).clone().requires_grad_() for one in ("q", "k", "v", "scores")
            }
            weights = leaves["scores"].softmax(-1)
            context = weights @ repeat_kv(leaves["v"], self.sizes.heads)
            wanted = weights if name == "weights" else leaves["v" if name == "v" else "scores"]
            (gradient,) = torch.autograd.grad(context, [wanted], cotangent)
        if name in ("q", "k"):
            return self._through_scores(name, gradient)
        return gradient

    def _through_scores(self, name: str, gradient: Tensor) -> Tensor:
        """Carry the gradient of the scores on to q or k, chunk by chunk."""
        pieces, start = [], 0
        for part in self.parts:
            keys = part.sizes.keys
            pieces.append(gradient_through_scores(part, name, gradient[..., start : start + keys]))
            start += keys
        return torch.cat(pieces, 2) if name == "k" else torch.stack(pieces).sum(0)

    def shapes(self) -> tuple[ShapeRow, ...]:
        """Return the rows of the first chunk and that of the final context."""
        context = ShapeRow(
            self.node.name,
            "context",
            self.output.shape,
            self.parts[0].context_axes(),
            (),
            self.node.source,
        )
        return (*self.parts[0].shapes(), context)
