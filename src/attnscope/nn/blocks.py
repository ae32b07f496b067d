"""Transformer layers built of parts: attention, feed-forward, norms and where they stand.

With ``placement="post"`` or ``"pre"`` and the right activation they compute what
`torch.nn.TransformerEncoderLayer` and `TransformerDecoderLayer` compute, under the same parameter
names, so that a state dict goes both ways. Masks of a call are torch's (True = may NOT attend);
masks as parts (`mask=`) say who may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.errors import InputError
from attnscope.nn.cache import AllOrNone, KeyValueCache
from attnscope.nn.droprates import Dropouts
from attnscope.nn.feedforward import ACTIVATIONS, FeedForward
from attnscope.nn.kinds import described
from attnscope.nn.multihead import MultiheadAttention
from attnscope.nn.norms import MakeNorm, Placement, ResidualLayer

__all__ = ["DecoderLayer", "EncoderLayer", "check_choices"]

Tokens: TypeAlias = Float[Tensor, "*tokens width"]
"""(batch, tokens, width), or (tokens, batch, width) where the attention is not batch first."""

Memory: TypeAlias = Float[Tensor, "*memory memory_width"]
"""The same of the memory, which may have another width."""

_NO_DROPOUT = Dropouts()
_DEFAULT = FeedForward()


class EncoderLayer(ResidualLayer):
    """Self-attention and feed-forward, each a residual branch.

    pre: ``x + attention(norm1(x))``, then ``x + feed_forward(norm2(x))``; post and sandwich as
    `ResidualLayer` says. With ``mask=Causal()`` it is the layer of a decoder-only model.
    Parameters: ``self_attn.*``, ``linear1``, ``linear2`` (``gate``), ``norm1``, ``norm2``
    (``norm1_after``, ``norm2_after``).

    Args:
        width: features of a token.
        heads: of the queries.
        feed_forward: how that part is built.
        norm: makes a norm of a width: `nn.LayerNorm`, `nn.RMSNorm`.
        placement: where the norms stand: "pre", "post", "sandwich".
        dropout: probabilities by place.
        bias: whether matrices have one; that of the norms is `norm`'s own affair.
        **attention: further parts of `MultiheadAttention`: ``kv_heads=2``, ``positions=Rotary()``,
            ``mask=Causal()``, ``batch_first=False`` (True where it is not given), device, dtype …

    Source: Vaswani et al. 2017, section 3.1. Elsewhere: TransformerEncoderLayer, Block (GPT-2).

    Example:
        >>> from attnscope.nn import Causal, Rotary, swiglu
        >>> layer = EncoderLayer(
        ...     64, 8, feed_forward=swiglu(), norm=nn.RMSNorm, bias=False, kv_heads=2,
        ...     positions=Rotary(), mask=Causal(),
        ... )
        >>> layer(torch.randn(2, 7, 64)).shape
        torch.Size([2, 7, 64])
    """

    linear1: nn.Linear
    gate: nn.Linear
    linear2: nn.Linear

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        feed_forward: FeedForward = _DEFAULT,
        norm: MakeNorm = nn.LayerNorm,
        placement: Placement = "pre",
        dropout: Dropouts = _NO_DROPOUT,
        bias: bool = True,
        **attention: Any,
    ) -> None:
        super().__init__()
        check_choices(feed_forward, norm, dropout)
        parts = {"batch_first": True, **attention}
        self.self_attn = MultiheadAttention(width, heads, dropout.weights, bias, **parts)
        self.feed_forward = feed_forward
        for name, linear in feed_forward.linears(width, bias=bias).items():
            self.add_module(name, linear)
        self.add_norms(2, width=width, norm=norm, placement=placement)
        self.dropout = nn.Dropout(dropout.feed_forward)
        self.dropout1, self.dropout2 = (nn.Dropout(dropout.residual) for _ in range(2))
        self.to(device=attention.get("device"), dtype=attention.get("dtype"))

    @classmethod
    def like(cls, layer: nn.TransformerEncoderLayer) -> EncoderLayer:
        """Return the layer that computes what torch's `layer` does, with a copy of its parameters.

        Raises:
            InputError: an activation that has no name in `ACTIVATIONS`.
        """
        made: EncoderLayer = _like(cls, layer, layer.dropout1)
        return made

    def forward(
        self,
        src: Tokens,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,  # noqa: FBT001, FBT002  torch's own signature
        **attending: Any,
    ) -> Tokens:
        """Return the output for tokens (batch, tokens, width), in the same shape.

        Args:
            src: tokens; (tokens, batch, width) where the attention is not batch first.
            src_mask: of torch's convention: True = may NOT attend, or floats to add.
            src_key_padding_mask: (batch, keys), True = padding, or floats to add.
            is_causal: a hint that `src_mask` is causal.
            **attending: what else `MultiheadAttention` takes: ``mask``, ``cache``, ``positions``.
        """

        def attend(x: Tensor) -> Tensor:
            attended: Tensor = self.self_attn(
                x,
                x,
                x,
                attn_mask=src_mask,
                key_padding_mask=src_key_padding_mask,
                need_weights=False,
                is_causal=is_causal,
                **attending,
            )[0]
            return self.dropout1(attended)  # type: ignore[no-any-return]

        with AllOrNone(_caches_of(attending)):
            x = self.residual(1, src, attend)
            return self.residual(
                2, x, lambda x: self.dropout2(self.feed_forward(x, self, self.dropout))
            )


class DecoderLayer(ResidualLayer):
    """Self-attention, attention to a memory, and feed-forward, each a residual branch.

    Parameters: ``self_attn.*``, ``multihead_attn.*``, ``linear1``, ``linear2`` (``gate``),
    ``norm1`` to ``norm3`` (``norm1_after`` to ``norm3_after``).

    Args:
        width: features of a token.
        heads: of the queries.
        cross: further parts of the attention to the memory, such as ``{"kdim": 768, "vdim": 768}``
            for a memory of another width; None: none.
        feed_forward: as for `EncoderLayer`.
        norm: as for `EncoderLayer`.
        placement: as for `EncoderLayer`.
        dropout: as for `EncoderLayer`.
        bias: as for `EncoderLayer`.
        **attention: further parts of the self-attention, as for `EncoderLayer`.

    Source: Vaswani et al. 2017, section 3.1. Elsewhere: TransformerDecoderLayer (torch).

    Example:
        >>> from attnscope.nn import Causal
        >>> layer = DecoderLayer(64, 8, mask=Causal())
        >>> layer(torch.randn(2, 5, 64), torch.randn(2, 9, 64)).shape
        torch.Size([2, 5, 64])
    """

    linear1: nn.Linear
    gate: nn.Linear
    linear2: nn.Linear

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        cross: Mapping[str, Any] | None = None,
        feed_forward: FeedForward = _DEFAULT,
        norm: MakeNorm = nn.LayerNorm,
        placement: Placement = "pre",
        dropout: Dropouts = _NO_DROPOUT,
        bias: bool = True,
        **attention: Any,
    ) -> None:
        super().__init__()
        check_choices(feed_forward, norm, dropout)
        parts = {"batch_first": True, **attention}
        basic = {name: parts[name] for name in ("batch_first", "device", "dtype") if name in parts}
        self.self_attn = MultiheadAttention(width, heads, dropout.weights, bias, **parts)
        self.multihead_attn = MultiheadAttention(
            width, heads, dropout.weights, bias, **basic, **(cross or {})
        )
        self.feed_forward = feed_forward
        for name, linear in feed_forward.linears(width, bias=bias).items():
            self.add_module(name, linear)
        self.add_norms(3, width=width, norm=norm, placement=placement)
        self.dropout = nn.Dropout(dropout.feed_forward)
        self.dropout1, self.dropout2, self.dropout3 = (
            nn.Dropout(dropout.residual) for _ in range(3)
        )
        self.to(device=attention.get("device"), dtype=attention.get("dtype"))

    @classmethod
    def like(cls, layer: nn.TransformerDecoderLayer) -> DecoderLayer:
        """Return the layer that computes what torch's `layer` does, with a copy of its parameters.

        Raises:
            InputError: an activation that has no name in `ACTIVATIONS`.
        """
        made: DecoderLayer = _like(cls, layer, layer.dropout1)
        return made

    def forward(
        self,
        tgt: Tokens,
        memory: Memory,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,  # noqa: FBT001, FBT002
        memory_is_causal: bool = False,  # noqa: FBT001, FBT002
        **attending: Any,
    ) -> Tokens:
        """Return the output for tokens (batch, tokens, width), in the same shape.

        Args:
            tgt: tokens; (tokens, batch, width) where the attention is not batch first.
            memory: what the second attention looks at, (batch, keys, width).
            tgt_mask: of torch's convention: True = may NOT attend, or floats to add.
            memory_mask: the same for (queries, keys of the memory).
            tgt_key_padding_mask: (batch, tokens), True = padding, or floats to add.
            memory_key_padding_mask: the same for the memory.
            tgt_is_causal: a hint that `tgt_mask` is causal.
            memory_is_causal: a hint that `memory_mask` is causal.
            **attending: what else the self-attention takes: ``mask=``, ``cache=``, ``positions=``.
        """

        def attend(x: Tensor) -> Tensor:
            attended: Tensor = self.self_attn(
                x,
                x,
                x,
                attn_mask=tgt_mask,
                key_padding_mask=tgt_key_padding_mask,
                need_weights=False,
                is_causal=tgt_is_causal,
                **attending,
            )[0]
            return self.dropout1(attended)  # type: ignore[no-any-return]

        def look(x: Tensor) -> Tensor:
            attended: Tensor = self.multihead_attn(
                x,
                memory,
                memory,
                attn_mask=memory_mask,
                key_padding_mask=memory_key_padding_mask,
                need_weights=False,
                is_causal=memory_is_causal,
            )[0]
            return self.dropout2(attended)  # type: ignore[no-any-return]

        with AllOrNone(_caches_of(attending)):
            x = self.residual(1, tgt, attend)
            x = self.residual(2, x, look)
            return self.residual(
                3, x, lambda x: self.dropout3(self.feed_forward(x, self, self.dropout))
            )


def _caches_of(attending: Mapping[str, Any]) -> tuple[KeyValueCache, ...]:
    cache = attending.get("cache")
    return (cache,) if isinstance(cache, KeyValueCache) else ()


def check_choices(feed_forward: object, norm: object, dropout: object) -> None:
    """Refuse choices of a layer that are of another kind than they should be.

    Raises:
        InputError: another kind; the message says what was given.
    """
    wanted = None
    if not isinstance(feed_forward, FeedForward):
        found, wanted = f"feed_forward: {described(feed_forward)}", "FeedForward(ratio=4)"
    elif isinstance(norm, nn.Module) or not callable(norm):
        found, wanted = f"norm: {described(norm)}", "what makes a norm of a width: nn.LayerNorm"
    elif not isinstance(dropout, Dropouts):
        found = f"dropout: {described(dropout)}"
        wanted = "Dropouts(residual=0.1), or Dropouts.everywhere(0.1)"
    if wanted is not None:
        raise InputError(doing="building a layer", found=found, todo=f"give {wanted}")


# -- from torch's layers ---------------------------------------------------------------------------


def _like(kind: type[Any], layer: Any, residual: nn.Dropout) -> Any:
    """Build a layer of `kind` from one of torch's and copy its state."""
    attention, norm = layer.self_attn, layer.norm1
    made = kind(
        attention.embed_dim,
        attention.num_heads,
        feed_forward=FeedForward(
            hidden=layer.linear1.out_features, activation=_name_of(layer.activation)
        ),
        norm=lambda width: nn.LayerNorm(width, eps=norm.eps, bias=norm.bias is not None),
        placement="pre" if layer.norm_first else "post",
        dropout=Dropouts(attention.dropout, residual.p, layer.dropout.p),
        bias=layer.linear1.bias is not None,
        batch_first=attention.batch_first,
        device=layer.linear1.weight.device,
        dtype=layer.linear1.weight.dtype,
    )
    made.load_state_dict(layer.state_dict())
    return made.train(layer.training)


def _name_of(activation: Any) -> str:
    """Return the name of an activation of torch: a function, or a module without parameters."""
    known = {F.relu: "relu", F.gelu: "gelu", F.silu: "silu", torch.sigmoid: "sigmoid"}
    if isinstance(activation, nn.GELU):
        return "gelu" if activation.approximate == "none" else "gelu-tanh"
    kinds = {nn.ReLU: "relu", nn.SiLU: "silu", nn.Sigmoid: "sigmoid", nn.Identity: "identity"}
    name = known.get(activation) or kinds.get(type(activation))
    if name is None:
        raise InputError(
            doing="building a layer like one of torch",
            found=f"the activation {activation!r}",
            todo=f"build the layer by hand with one of {', '.join(ACTIVATIONS)}",
        )
    return name
