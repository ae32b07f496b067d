"""Evidence of a fused kernel: q, k, v and arguments; everything else is derived when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from attnscope.calls.arrangement import Arrangement, from_names
from attnscope.calls.broadcasting import repeat_kv
from attnscope.calls.evidence import Evidence, Sizes, Spot
from attnscope.calls.held import Held, has_values
from attnscope.calls.mask import Mask
from attnscope.calls.program import drawing_from
from attnscope.calls.recipe import Recipe
from attnscope.calls.shapes import ShapeRow
from attnscope.calls.tolerance import largest_relative
from attnscope.capture.gradients import Cotangent
from attnscope.capture.kernel import Axes, KernelCall
from attnscope.capture.layout import Layout
from attnscope.capture.provenance import Operand
from attnscope.capture.reading.sheet import KEY_WORDS, QUERY_WORDS, VALUE_WORDS, operand_rows
from attnscope.capture.reading.trails import Trails, scale_of
from attnscope.errors import ReplayError

_WORDS = {"q": QUERY_WORDS, "k": KEY_WORDS, "v": VALUE_WORDS}


@dataclass(eq=False)
class FusedEvidence(Evidence):
    """The arguments of one kernel call, by reference."""

    kernel: KernelCall
    q: Operand
    k: Operand
    v: Operand
    output: Held
    cotangent: Cotangent

    @property
    def axes(self) -> Axes:
        """Names of the axes of q, k and v."""
        return self.kernel.axes

    # -- arrangement -----------------------------------------------------------------------------

    @cached_property
    def arrangements(self) -> dict[str, Arrangement]:
        """How each tensor becomes canonical; repeated kv heads are found by their trails."""
        own = self.axes
        plain = {
            "q": from_names(self.q.held.shape, self._unfolded(own)),
            "k": from_names(self.k.held.shape, own),
            "v": from_names(self.v.held.shape, own),
        }
        copies = {
            name: _copies(operand, self.axes) for name, operand in (("k", self.k), ("v", self.v))
        }
        if copies["k"] and copies["k"] == copies["v"]:
            for name in ("k", "v"):
                plain[name] = _without_copies(plain[name], self.axes, copies[name])
        output_axes = self._unfolded(self.kernel.output_axes or own)
        plain["context"] = from_names(self.output.shape, output_axes)
        return plain

    @cached_property
    def folded(self) -> bool:
        """Whether the heads of one kv head stand where the queries would (one query at a time)."""
        cut_off = _features(self.q, self.axes)
        return bool(cut_off) and all(cut_off) and not any(_features(self.k, self.axes))

    def _unfolded(self, axes: Axes) -> Axes:
        if not self.folded:
            return axes
        return tuple("heads" if name == "tokens" else name for name in axes)

    @cached_property
    def sizes(self) -> Sizes:
        """Sizes in the canonical layout."""
        shapes = {name: arrangement.shape for name, arrangement in self.arrangements.items()}
        batch = max(shapes["q"][0], shapes["k"][0])
        kv_heads = max(shapes["k"][1], shapes["v"][1])
        heads, queries, head_dim = shapes["q"][1:]
        heads = max(heads, kv_heads)
        return Sizes(batch, heads, kv_heads, queries, shapes["k"][2], head_dim, shapes["v"][3])

    @property
    def by_recipe(self) -> bool:
        """Whether the recipe alone gives scores and weights."""
        return self.kernel.scores is None

    @cached_property
    def recipe(self) -> Recipe:
        """The kernel's arguments, with what was multiplied into q and k before."""
        sizes = self.sizes
        recipe = replace(self.kernel.read_recipe(), group=sizes.group)
        if self.folded:
            recipe = self._with_heads(recipe)
        if recipe.expansion == "none" and sizes.kv_heads != sizes.heads:
            copied = _copies(self.k, self.axes)
            tiled = bool(copied) and copied[0] < 0
            expansion = "repeat" if tiled else "expand" if copied else "broadcast"
            recipe = replace(recipe, expansion=expansion)
        scale = recipe.scale
        if scale is not None:
            for operand in (self.q, self.k):
                scale = scale * scale_of(operand.trail)
        return replace(recipe, scale=scale)

    def _with_heads(self, recipe: Recipe) -> Recipe:
        """Give mask and bias (batch, kv_heads, group, keys) the heads' own axis."""
        sizes = self.sizes

        def spread(tensor: Tensor) -> Tensor:
            shape = (
                tensor.shape[0],
                sizes.kv_heads,
                sizes.heads // sizes.kv_heads,
                tensor.shape[-1],
            )
            if tensor.shape[1:3] == (1, 1):
                return tensor
            return tensor.expand(shape).reshape(shape[0], sizes.heads, 1, shape[-1])

        mask, bias = recipe.mask, recipe.bias
        if mask.tensor is not None and mask.tensor.shape[1:3] != (1, 1):
            mask = Mask.from_tensor(spread(mask.tensor))
        return replace(recipe, mask=mask, bias=spread(bias) if bias is not None else None)

    # -- values ----------------------------------------------------------------------------------

    def value(self, name: str) -> Tensor:
        """Return one tensor in the canonical layout."""
        with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
            if name == "scores":
                return self._scores(*self._qk())
            if name == "weights":
                return self._weights(*self._qk())
            if name == "context":
                return self._context()
            return self._operand(name, self._operands[name])

    def spot(self, name: str) -> Spot | None:
        """Return where q, k, v or the context lies in the model's run."""
        if name in {"scores", "weights"}:  # inside the kernel
            return None
        if name == "context" and self.kernel.finish is not None:
            return None
        held = self.output if name == "context" else self._operands[name].held
        arrangement = self.arrangements[name]
        scale = scale_of(self._operands[name].trail) if name in {"q", "k"} else 1.0

        def read(tensor: Tensor) -> Tensor:
            own = self._spread(arrangement.canonical(tensor))
            return own / scale if isinstance(scale, Tensor) or scale != 1.0 else own

        def write(tensor: Tensor) -> Tensor:
            return arrangement.restore((tensor * scale)[: arrangement.shape[0]])

        def read_gradient(tensor: Tensor) -> Tensor:
            return self._spread(arrangement.canonical(tensor, add_copies=True)) * scale

        return Spot(held, read, write, read_gradient)

    @property
    def _operands(self) -> dict[str, Operand]:
        return {"q": self.q, "k": self.k, "v": self.v}

    def _operand(self, name: str, operand: Operand) -> Tensor:
        tensor = self._given(name, operand)
        scale = scale_of(operand.trail) if name != "v" else 1.0
        return tensor / scale if isinstance(scale, Tensor) or scale != 1.0 else tensor

    def _given(self, name: str, operand: Operand) -> Tensor:
        """Return an operand as the kernel was given it, what it was scaled with included."""
        return self._spread(self.arrangements[name].canonical(operand.held.tensor))

    def _spread(self, tensor: Tensor) -> Tensor:
        if tensor.shape[0] == 1 and self.sizes.batch > 1:
            return tensor.expand(self.sizes.batch, *tensor.shape[1:])
        return tensor

    def _qk(self) -> tuple[Tensor, Tensor]:
        """Return q and k as scores are made of them: by the recipe, or by the kernel's own way."""
        way = self._operand if self.kernel.scores is None else self._given
        return way("q", self.q), way("k", self.k)

    def _scores(self, q: Tensor, k: Tensor) -> Tensor:
        if self.kernel.scores is not None:
            return self.kernel.scores(q, k)
        return self.recipe.scores(q, k)

    def _weights(self, q: Tensor, k: Tensor) -> Tensor:
        if self.kernel.scores is not None:
            return self.recipe.normalise(self.kernel.scores(q, k))
        return self.recipe.weights(q, k)

    def _context(self) -> Tensor:
        if self.kernel.finish is not None:
            return self._derived_context(None)
        return self.arrangements["context"].canonical(self.output.tensor)

    def _derived_context(self, dtype: torch.dtype | None) -> Tensor:
        q, k = self._qk()
        v = self._operand("v", self.v)
        dtype = dtype or q.dtype
        if self.kernel.scores is None and not self.kernel.dropout:
            return self.recipe.context(q, k, v, dtype)
        own = torch.promote_types(q.dtype, dtype) if self.kernel.scores is not None else q.dtype
        weights = self._dropped(self._weights(q.to(own), k.to(own))).to(dtype)
        return weights @ repeat_kv(v.to(dtype), weights.shape[1])

    def _dropped(self, weights: Tensor) -> Tensor:
        """Drop the weights that the kernel dropped."""
        if not self.kernel.dropout:
            return weights
        if self.kernel.random is None:
            raise ReplayError(
                doing="replaying dropout inside a kernel",
                found=f"weights dropped with probability {self.kernel.dropout}, unknown which",
                todo="look at the model in eval mode",
            )
        with drawing_from(self.kernel.random):
            return torch.dropout(weights, self.kernel.dropout, train=True)

    def weight_blocks(self) -> Iterator[Tensor]:
        """Yield the weights by blocks of queries: no queries×keys matrix is kept."""
        q, k = self._qk()
        if self.kernel.scores is not None:
            yield self._weights(q, k)
            return
        yield from self.recipe.weight_blocks(q, k)

    def replay_error(self) -> float | None:
        """Compare the kernel's output with the definition in float64."""
        if not has_values(self.output.raw):
            return None
        with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
            context = self._derived_context(torch.float64)
            if self.kernel.finish is not None:
                own = self.output.tensor
                return largest_relative(self.kernel.finish(context.to(own.dtype)), own)
            return largest_relative(context, self._context())

    def rerun(self, name: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Follow the definition in float64 with other q, k and v."""
        q, k, v = q.double(), k.double(), v.double()
        with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001
            if name == "raw_scores":
                return self.recipe.raw_scores(q, k)
            if self.kernel.scores is not None:
                q, k = q * scale_of(self.q.trail), k * scale_of(self.k.trail)
            scores = self._scores(q, k)
            if name == "scores":
                return scores
            weights = self._dropped(self.recipe.normalise(scores))
            return weights if name == "weights" else self.recipe.weigh(weights, v)

    # -- gradients -------------------------------------------------------------------------------

    def gradient(self, name: str) -> Tensor:
        """Derive the gradient from that of the kernel's output, by autograd on the definition."""
        if self.kernel.finish is not None:
            raise ReplayError(
                doing=f"deriving the gradient of {name}",
                found="a kernel that runs under no_grad only",
                todo="run the module in train mode, where it computes attention step by step",
            )
        cotangent = self.arrangements["context"].canonical(self.cotangent.tensor())
        if name == "context":
            return cotangent
        own = torch._C.DisableTorchFunction()  # noqa: SLF001
        with own, torch.inference_mode(mode=False), torch.enable_grad():
            return self._backward(name, cotangent)

    def _backward(self, name: str, cotangent: Tensor) -> Tensor:
        leaves = {one: self.value(one).clone().requires_grad_() for one in ("q", "k", "v")}
        q, k = leaves["q"], leaves["k"]
        if self.kernel.scores is not None:
            q, k = q * scale_of(self.q.trail), k * scale_of(self.k.trail)
        scores = self._scores(q, k)
        weights = self.recipe.normalise(scores)
        context = self._dropped(weights) @ repeat_kv(leaves["v"], weights.shape[1])
        wanted = {**leaves, "scores": scores, "weights": weights}[name]
        (gradient,) = torch.autograd.grad(context, [wanted], cotangent)
        return gradient

    def shapes(self) -> tuple[ShapeRow, ...]:
        """Return one row a step: projections to q, k, v, then what the kernel holds inside."""
        sizes = self.sizes
        rows = [
            row
            for name, operand in (("q", self.q), ("k", self.k), ("v", self.v))
            for row in operand_rows(name, operand.trail, self.arrangements[name], _WORDS[name])
        ]
        matrix = (sizes.batch, sizes.heads, sizes.queries, sizes.keys)
        inside = ("batch", "heads", "queries", "keys")
        rows.append(ShapeRow(f"inside {self.kernel.kind}", "scores", matrix, inside))
        rows.append(ShapeRow(f"inside {self.kernel.kind}", "weights", matrix, inside))
        context = (*matrix[:3], sizes.value_dim)
        rows.append(ShapeRow(self.kernel.kind, "context", context, (*inside[:3], "value_dim")))
        return tuple(rows)


def fused_evidence(
    kernel: KernelCall, q: Operand, k: Operand, v: Operand, output: Held, cotangent: Cotangent
) -> FusedEvidence:
    """Return the evidence of one kernel call."""
    gone = kernel.output.new_empty(0).detach()  # the tensors themselves are held as operands
    kernel = replace(kernel, q=gone, k=gone, v=gone, output=gone)
    return FusedEvidence(kernel, q, k, v, output, cotangent)


def _heads_axis(layout: Layout | None, axes: Axes) -> tuple[int, ...]:
    """Return for each factor of the heads axis its size, negative where it is a copy."""
    if layout is None or "heads" not in axes:
        return ()
    atoms = layout.axes[axes.index("heads")]
    return tuple(-atom.size if atom.repeated else atom.size for atom in atoms)


def _features(operand: Operand, axes: Axes) -> tuple[bool, ...]:
    """Return for each factor of the tokens' axis whether it was cut off a projection's features."""
    trail = operand.trail
    if trail is None or trail.shape != operand.held.shape or "tokens" not in axes:
        return ()
    trails = Trails()
    layout = trails.layout(trail)
    atoms = layout.axes[axes.index("tokens")] if layout is not None else ()
    return tuple(trails.is_feature(atom.origin, atom.axis) for atom in atoms)


def _copies(operand: Operand, axes: Axes) -> tuple[int, ...]:
    """Return the factors of the heads axis where the trail shows copies of kv heads, else ()."""
    trail = operand.trail
    layout = (
        Trails().layout(trail) if trail is not None and trail.shape == operand.held.shape else None
    )
    factors = _heads_axis(layout, axes)
    return factors if any(size < 0 for size in factors) else ()


def _without_copies(plain: Arrangement, axes: Axes, factors: tuple[int, ...]) -> Arrangement:
    """Split the heads axis into `factors` and drop the copies."""
    at = axes.index("heads")
    sizes = tuple(abs(size) for size in factors)
    splits = (*plain.splits[:at], sizes, *plain.splits[at + 1 :])
    starts = [sum(len(axis) for axis in splits[:axis]) for axis in range(len(splits))]
    names = ("batch", "heads", "tokens", "dim")
    groups = []
    for name in names:
        group: list[int] = []
        for axis, own in enumerate(axes):
            if own != name:
                continue
            members = range(starts[axis], starts[axis] + len(splits[axis]))
            group.extend(m for m in members if axis != at or factors[m - starts[at]] > 0)
        groups.append(tuple(group))
    copies = tuple(starts[at] + i for i, size in enumerate(factors) if size < 0)
    return Arrangement(splits, tuple(groups), copies)
