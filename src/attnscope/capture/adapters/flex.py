"""FlexAttention: the operator behind `torch.nn.attention.flex_attention.flex_attention`.

Its convention: (batch, heads, tokens, dim), fewer kv heads are repeated; `mask_mod(b, h, q, k)`
True = may attend; `score_mod(score, b, h, q, k)` gets the score already scaled. A row that sees
nothing gives zeros. Both are functions of the user's own, so they are asked: a mask in blocks of
rows, which keeps only what differs between samples and heads, and a score modifier by what it
answers to chosen scores.

The operator is seen where it runs uncompiled, as under `torch.compiler.set_stance("force_eager")`.
There the mask alone counts; the blocks that a `BlockMask` lists only save a compiled kernel work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnscope.axes import Key, Query, Scores, Visible
from attnscope.calls.broadcasting import collapse
from attnscope.calls.held import Held, has_values
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.capture.adapters.arguments import Signature
from attnscope.capture.kernel import KernelCall
from attnscope.capture.modes import unobserved
from attnscope.capture.reading.scores import read_scores

__all__ = ["FlexAttention"]

_SIGNATURE = Signature(
    "query key value score_mod block_mask scale kernel_options",
    score_mod_other_buffers=(),
    mask_mod_other_buffers=(),
)
_ENTRIES = 1 << 24
"""Scores up to which a score modifier is read; it takes about ten times as many numbers."""

_BLOCK_ENTRIES = 1 << 22


class FlexAttention:
    """Reads calls of the FlexAttention operator."""

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the one operator."""
        from torch._higher_order_ops.flex_attention import flex_attention

        return (flex_attention,)

    def read(
        self,
        function: Callable[..., Any],  # noqa: ARG002  there is only one
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> tuple[KernelCall, ...]:
        """Return the one attention of the call."""
        given = _SIGNATURE.bind(args, kwargs)
        q, k = given["query"], given["key"]
        held = Held(q), Held(k)
        modifiers = _Modifiers.of(given)

        def read_recipe() -> Recipe:
            return _read_recipe(modifiers, held[0].tensor, held[1].tensor)

        return (
            KernelCall(
                kind="flex",
                q=q,
                k=k,
                v=given["value"],
                output=output[0],
                read_recipe=read_recipe,
                held=held,
                scores=None if modifiers.keeps_scores else modifiers.scores_of,
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Modifiers:
    """The user's functions of one call, and the scale that goes before them."""

    score_mod: Callable[..., Tensor]
    score_buffers: tuple[Any, ...]
    mask_mod: Callable[..., Tensor]
    mask_buffers: tuple[Any, ...]
    scale: float

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> _Modifiers:
        return cls(
            given["score_mod"],
            tuple(given["score_mod_other_buffers"]),
            given["block_mask"][-1],
            tuple(given["mask_mod_other_buffers"]),
            given["scale"],
        )

    @property
    def keeps_scores(self) -> bool:
        """Whether there is no score modifier."""
        from torch.nn.attention import flex_attention

        return self.score_mod is flex_attention._identity  # noqa: SLF001  what None stands for

    @property
    def hides_nothing(self) -> bool:
        """Whether there is no mask."""
        from torch.nn.attention.flex_attention import noop_mask

        return self.mask_mod is noop_mask

    def scores_of(self, q: Query, k: Key) -> Scores:
        """Return what enters the softmax."""
        keys = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        return self.modified(q @ keys.mT)

    def modified(self, raw: Tensor) -> Scores:
        """Return the scores that follow from `q·k`, -inf where the mask hides."""
        index = [torch.arange(size, device=raw.device) for size in raw.shape]
        with _indexing():
            modify = _over_positions(self.score_mod, self.score_buffers, scores=True)
            scores = modify(raw * self.scale, *index, *self.score_buffers)
            seen = self._visible(*index)
        return scores.to(raw.dtype).masked_fill(~seen, float("-inf"))

    def visible(self, sizes: tuple[int, int, int, int], device: torch.device) -> Visible:
        """Ask the mask for every entry, in blocks of queries; batch and heads are 1 where alike."""
        index = [torch.arange(size, device=device) for size in sizes]
        batch, heads, queries, keys = index
        step = max(1, _BLOCK_ENTRIES // max(1, sizes[0] * sizes[1] * sizes[3]))
        with _indexing():
            blocks = [
                collapse(self._visible(batch, heads, rows, keys), axes=(1, 0))
                for rows in queries.split(step)
            ]
        lead = [max(block.shape[axis] for block in blocks) for axis in (0, 1)]
        return torch.cat([block.expand(*lead, -1, -1) for block in blocks], -2)

    def _visible(self, *index: Tensor) -> Visible:
        ask = _over_positions(self.mask_mod, self.mask_buffers, scores=False)
        return ask(*index, *self.mask_buffers).to(torch.bool)


def _over_positions(
    function: Callable[..., Tensor], buffers: tuple[Any, ...], *, scores: bool
) -> Callable[..., Tensor]:
    """Map a function of one position over (batch, heads, queries, keys), as the operator does."""
    from torch.nn.attention import flex_attention

    return flex_attention._vmap_for_bhqkv(  # noqa: SLF001  the operator's own way
        function, prefix=(0,) if scores else (), suffix=(None,) * len(buffers)
    )


@contextlib.contextmanager
def _indexing() -> Iterator[None]:
    """Let modifiers index tensors with positions."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    with unobserved(), TransformGetItemToIndex():
        yield


@torch.no_grad()
def _read_recipe(modifiers: _Modifiers, q: Query, k: Key) -> Recipe:
    heads, kv_heads = q.shape[1], k.shape[1]
    recipe = Recipe(
        scale=modifiers.scale,
        group=heads // kv_heads,
        expansion="none" if heads == kv_heads else "enable_gqa",
        empty_row="zero",
    )
    if not has_values(q):
        return replace(recipe, scale=None, unknown=("mask", "score_mod"))
    sizes = (q.shape[0], heads, q.shape[2], k.shape[2])
    entries = torch.Size(sizes).numel()
    if not modifiers.keeps_scores and entries <= _ENTRIES:
        return _with_score_mod(recipe, modifiers, q, k)
    if not modifiers.hides_nothing:
        recipe = replace(recipe, mask=Mask.from_tensor(modifiers.visible(sizes, q.device)))
    if modifiers.keeps_scores:
        return recipe
    return replace(recipe, scale=None, unknown=("score_mod",))


def _with_score_mod(recipe: Recipe, modifiers: _Modifiers, q: Query, k: Key) -> Recipe:
    wide = torch.promote_types(q.dtype, torch.float32)  # the operator's working precision
    raw = q.to(wide) @ k.to(wide).repeat_interleave(recipe.group, 1).mT
    reading = read_scores(modifiers.modified, raw, modifiers.modified(raw))
    mask = Mask.nothing()
    if reading.visible is not None:
        mask = Mask.from_tensor(reading.visible, *raw.shape[-2:])
    unknown = tuple(name for name in reading.unknown if name != "empty-row")
    return replace(
        recipe,
        scale=reading.scale,
        softcap=reading.softcap,
        bias=reading.bias,
        mask=mask,
        unknown=("score_mod", *unknown) if unknown else (),
    )
