"""Multi-head attention: a drop-in for `torch.nn.MultiheadAttention` that can be extended and seen.

The forward is the formula, a line a step. Without parts it does what torch does, operation by
operation, so that results agree to the bit; a part takes its place between two of the lines.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.axes import Context, Key, Query, Value, Weights
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.checking import check_cache, check_inputs, check_torch_masks, check_types
from attnscope.nn.checking_parts import check_fit, check_parts, check_sizes
from attnscope.nn.dropouts import AttentionDropouts
from attnscope.nn.fused import fuses, is_plain
from attnscope.nn.headnorm import HeadNorm, build_norm
from attnscope.nn.heads import (
    Tokens,
    for_each_head,
    mix,
    side_by_side,
    split,
    tokens_first,
    with_learned,
    with_zeros,
)
from attnscope.nn.last import LastCall, keeps_its_own_forward, remembered
from attnscope.nn.limits import Limits, TorchMasks, limits_of
from attnscope.nn.masks import Mask
from attnscope.nn.output import OutputProjection
from attnscope.nn.parameters import add_parameters, project, reset_parameters
from attnscope.nn.places import GivenPositions, Whereabouts, whereabouts
from attnscope.nn.positions import Positions
from attnscope.nn.projections import Projections, Widths
from attnscope.nn.scores import normalise

__all__ = ["MultiheadAttention"]

Outcome: TypeAlias = tuple[Tensor, Tensor | None]


class MultiheadAttention(LastCall, nn.MultiheadAttention):
    """Attention of many heads: a drop-in for `torch.nn.MultiheadAttention`, open to parts.

    Per head h: context_h = softmax(scale · q_h·k_hᵀ + bias, -inf where masked) · v_h, and
    output = [context_1 … context_heads] · W_oᵀ + b_o. Source: Vaswani et al. 2017, section 3.2.

    The first arguments, the parameters, their names and first values are those of
    `torch.nn.MultiheadAttention`, and so are results, errors and masks (True = may NOT attend, or
    floats that are added). After them come parts, by name; what is left out is not there. After a
    forward `last_call` is its `Call`, with all that happened between the inputs and the output.

    Args:
        embed_dim: width of the input and output.
        num_heads: heads of the queries.
        dropout: probability with which weights are dropped in training.
        bias: whether the projections add one.
        add_bias_kv: one more key and value, learned, the same for all samples.
        add_zero_attn: one more key and value of zeros.
        kdim: width of `key`; None: embed_dim.
        vdim: width of `value`; None: embed_dim.
        batch_first: inputs are (batch, tokens, width), else (tokens, batch, width).
        device: of the parameters.
        dtype: of the parameters.
        kv_heads: heads of keys and values, each serving num_heads / kv_heads heads of the queries,
            neighbours (Ainslie et al. 2023); 1 is multi-query attention (Shazeer 2019).
        head_dim: width of one head; None: embed_dim / num_heads.
        scale: what q·k is multiplied by; None: 1/√head_dim.
        projections: how q, k and v come from the inputs: `Separate()`, `Fused()`,
            `SharedKeyValue()`, `SharedQueryKey()`.
        qk_norm: norm of q and one of k, before they are turned, such as `torch.nn.RMSNorm`, or
            `AcrossHeads(torch.nn.RMSNorm)`.
        positions: `Rotary()`, `ALiBi()`, `T5Bias(heads)`, `ShawKeys(head_dim)`.
        scores: what scaled scores go through before bias and mask: `Softcap(50.0)`.
        mask: who may attend to whom in every forward: `Causal()`, `Window(n)`, with & and |.
        sinks: columns beside the keys in the softmax: `Sinks(heads)`, `ZeroSink()`.
        dropouts: more places where to drop.
        context_norm: norm of the context before the output projection: `PerHead(norm)`,
            `AcrossHeads(norm)`.
        output: another output projection: `HeadwiseOutput()`.

    Raises:
        InputError: sizes that don't fit each other.

    Example:
        >>> import torch, attnscope.nn as nn
        >>> attention = nn.MultiheadAttention(
        ...     64, 8, batch_first=True, kv_heads=2, positions=nn.Rotary(), mask=nn.Causal(),
        ...     qk_norm=torch.nn.RMSNorm, scores=nn.Softcap(50.0),
        ... )
        >>> x = torch.randn(2, 5, 64)
        >>> output, weights = attention(x, x, x)
        >>> attention.last_call.recipe.softcap, attention.last_call.replay_error
        (50.0, 0.0)
    """

    in_proj_weight: Any  # None where the widths differ, or another part projects
    projections: nn.Module | None
    in_proj_bias: Any  # None without bias
    out_proj: Any  # a layer, or what `output` made

    def __init__(  # noqa: PLR0913, PLR0917  torch's own arguments, and one for each part
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,  # noqa: FBT001, FBT002  torch's own signature
        add_bias_kv: bool = False,  # noqa: FBT001, FBT002
        add_zero_attn: bool = False,  # noqa: FBT001, FBT002
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,  # noqa: FBT001, FBT002
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        scale: float | None = None,
        projections: Projections | None = None,
        qk_norm: HeadNorm | None = None,
        positions: Positions | None = None,
        scores: nn.Module | None = None,
        mask: Mask | None = None,
        sinks: nn.Module | None = None,
        dropouts: AttentionDropouts | None = None,
        context_norm: HeadNorm | None = None,
        output: OutputProjection | None = None,
    ) -> None:
        nn.Module.__init__(self)
        kv_heads = num_heads if kv_heads is None else kv_heads
        check_sizes(embed_dim, num_heads, kv_heads, head_dim, kdim, vdim)
        check_parts(
            dropout=dropout,
            scale=scale,
            projections=projections,
            qk_norm=qk_norm,
            positions=positions,
            scores=scores,
            mask=mask,
            sinks=sinks,
            dropouts=dropouts,
            context_norm=context_norm,
            output=output,
        )
        self.embed_dim, self.num_heads, self.kv_heads = embed_dim, num_heads, kv_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.head_dim = embed_dim // num_heads if head_dim is None else head_dim
        check_fit(num_heads, self.head_dim, positions, sinks)
        self.widths = Widths(
            embed_dim,
            self.kdim,
            self.vdim,
            num_heads,
            kv_heads,
            self.head_dim,
            bias,
            device,
            dtype,
        )
        self.scale, self.one_output = scale, output is None
        self.dropout, self.dropouts = dropout, dropouts or AttentionDropouts()
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        add_parameters(self, self.widths, projections, output, add_bias_kv=add_bias_kv)
        self.q_norm = build_norm(qk_norm, num_heads, self.head_dim)
        self.k_norm = build_norm(qk_norm, kv_heads, self.head_dim)
        self.positions = positions
        self.scores = scores
        self.mask = mask
        self.sinks = sinks
        self.context_norm = build_norm(context_norm, num_heads, self.head_dim)
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)
        # torch's encoder layers ask this before they compute attention by themselves
        self._qkv_same_embed_dim = is_plain(self) and self.widths.same
        self.register_forward_pre_hook(keeps_its_own_forward)

    @remembered
    def forward(  # noqa: PLR0913  torch's own arguments
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,  # noqa: FBT001, FBT002  torch's own signature
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,  # noqa: FBT001, FBT002
        is_causal: bool = False,  # noqa: FBT001, FBT002
        *,
        mask: Mask | None = None,
        cache: KeyValueCache | None = None,
        positions: GivenPositions = None,
    ) -> Outcome:
        """Return the output, and the weights where they are wanted.

        Args:
            query: (tokens, batch, embed_dim), (batch, tokens, embed_dim) with `batch_first`, or
                (tokens, embed_dim).
            key: the same with kdim.
            value: the same with vdim, as many tokens as `key`.
            key_padding_mask: (batch, keys), True = may NOT be attended to, or floats to add.
            need_weights: return the weights; without them a fused kernel does the work, where it
                can. A query that sees no key gives NaN with weights, and 0 without.
            attn_mask: (queries, keys) or (batch · num_heads, queries, keys), True = may NOT attend,
                or floats to add.
            average_attn_weights: the weights are (batch, queries, keys), their mean over heads,
                else (batch, num_heads, queries, keys); after dropout.
            is_causal: a hint that `attn_mask`, given too, is causal (top-left).
            mask: who may attend to whom in this forward, beside the module's own mask.
            cache: keys and values of the tokens before these, which grow by these; from
                `new_cache()`. Masks of torch's convention then cover all keys.
            positions: (tokens,) or (batch, tokens) of queries and keys, or a tuple of both; None:
                counted from 0, or on from the cache.

        Raises:
            InputError: shapes, masks or positions that don't fit.
        """
        check_types(self, query, key, value, key_padding_mask, attn_mask, mask, cache)
        extra = mask is not None or cache is not None or positions is not None
        if not extra and fuses(self, query, key, value):
            check_torch_masks(self, query, key, value, key_padding_mask, attn_mask, is_causal)
            return super().forward(
                query,
                key,
                value,
                key_padding_mask,
                need_weights,
                attn_mask,
                average_attn_weights,
                is_causal,
            )
        batched = check_inputs(query, key, value, self.widths, 0 if self.batch_first else 1)
        query, key, value = tokens_first(
            query, key, value, batched=batched, batch_first=self.batch_first
        )
        start = 0 if cache is None else cache.length
        tokens, batch = (query.shape[0], key.shape[0]), query.shape[1]
        where = whereabouts(*tokens, batch, start, positions, query.device)
        formula = need_weights or self._needs_formula

        q, k, v = (split(x, self.head_dim) for x in project(self, query, key, value))
        q, k = self._normed(q, k)
        q, k = self._turned(q, k, where)
        attended = k, v, where.key_positions
        if cache is not None:
            check_cache(cache, self, self.mask, mask)
            attended = cache.joined(*attended)
            where = where.with_keys(start + tokens[1], attended[2])
        k, v, _ = attended
        limits = limits_of(q, self._factor, where, self.positions, self.mask, mask)
        masks = TorchMasks(attn_mask, key_padding_mask, is_causal, batched)
        hinted = not formula and cache is None
        limits = masks.into(limits, q, k.shape[2], start + tokens[1], hinted=hinted)
        k, v, limits = self._with_extra(k, v, limits)
        k, v = for_each_head(k, self.num_heads), for_each_head(v, self.num_heads)
        weights = self._weights(q, k, limits) if formula else None
        context = self._kernel(q, k, v, limits) if weights is None else mix(weights, v)
        output = self._merged(context)

        if cache is not None:  # nothing can be refused any more
            cache.take(attended, tokens[1])
        if not batched:
            output = output.squeeze(1)
        elif self.batch_first:
            output = output.transpose(1, 0)
        if weights is None or not need_weights:
            return output, None
        weights = weights.mean(dim=1) if average_attn_weights else weights
        return output, weights if batched else weights.squeeze(0)

    # -- the steps ------------------------------------------------------------------------------

    def _normed(self, q: Query, k: Key) -> tuple[Query, Key]:
        if self.q_norm is None or self.k_norm is None:
            return q, k
        return self.q_norm(q), self.k_norm(k)

    def _turned(self, q: Query, k: Key, where: Whereabouts) -> tuple[Query, Key]:
        if self.positions is None:
            return q, k
        return self.positions.turn(q, k, where.query_positions, where.key_positions)

    def _with_extra(self, k: Key, v: Value, limits: Limits) -> tuple[Key, Value, Limits]:
        """Add the learned key and value, and those of zeros, behind all others."""
        if self.bias_k is not None and self.bias_v is not None:
            k, v = with_learned(k, self.bias_k), with_learned(v, self.bias_v)
            limits = limits.widened()
        if self.add_zero_attn:
            k, v, limits = with_zeros(k), with_zeros(v), limits.widened()
        return k, v, limits

    def _weights(self, q: Query, k: Key, limits: Limits) -> Weights:
        """Return softmax(scores), dropped out, step by step."""
        left, right = (q * self._factor).flatten(0, 1), k.flatten(0, 1).transpose(-2, -1)
        at_once = self.scores is None and not self.dropouts.scores
        if at_once and limits.additive is not None:
            scores = torch.baddbmm(limits.additive, left, right)
        else:
            scores = torch.bmm(left, right)
        scores = scores.view(*q.shape[:2], *scores.shape[1:])  # batch heads queries keys
        if self.scores is not None:
            scores = self.scores(scores)
        scores = self._dropped(scores, self.dropouts.scores)
        scores = limits.on(scores, additive=not at_once)
        return self._dropped(normalise(scores, self.sinks), self.dropout)

    def _kernel(self, q: Query, k: Key, v: Value, limits: Limits) -> Context:
        """Return the context from PyTorch's fused kernel."""
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            limits.as_one(*q.shape[:2]),
            self.dropout if self.training else 0.0,
            limits.causal,
            scale=self.scale,
        )

    def _merged(self, context: Context) -> Tokens:
        """Return the output (queries, batch, embed_dim) of all heads."""
        if self.context_norm is not None:
            context = self.context_norm(context)
        context = self._dropped(context, self.dropouts.context)
        if self.one_output:
            rows = side_by_side(context)
            output = F.linear(rows, self.out_proj.weight, self.out_proj.bias)
            output = output.view(context.shape[2], context.shape[0], self.embed_dim)
        else:
            output = self.out_proj(context).transpose(0, 1)
        return self._dropped(output, self.dropouts.output)

    def _dropped(self, x: Tensor, probability: float) -> Tensor:
        return F.dropout(x, probability) if self.training and probability > 0 else x

    # -- what the steps ask -----------------------------------------------------------------------

    @property
    def _factor(self) -> float:
        return math.sqrt(1.0 / float(self.head_dim)) if self.scale is None else self.scale

    @property
    def _needs_formula(self) -> bool:
        """Whether there are steps that the fused kernel doesn't know."""
        return self.scores is not None or self.sinks is not None or bool(self.dropouts.scores)

    def draws(self) -> bool:
        """Return whether a forward draws random numbers: in training, with dropout."""
        return self.training and (self.dropout > 0 or self.dropouts.any)

    def new_cache(self) -> KeyValueCache:
        """Return an empty cache that keeps what this module's mask shows.

        Example:
            >>> attention = MultiheadAttention(8, 2, mask=Causal() & Window(4))
            >>> attention.new_cache()
            KeyValueCache(window=4, length=0, kept=0)
        """
        return KeyValueCache(None if self.mask is None else self.mask.reach)

    def _reset_parameters(self) -> None:
        reset_parameters(self)

    def extra_repr(self) -> str:
        """Return the sizes."""
        kv = f", kv_heads={self.kv_heads}" if self.kv_heads != self.num_heads else ""
        return f"{self.embed_dim}, heads={self.num_heads}{kv}, head_dim={self.head_dim}"
