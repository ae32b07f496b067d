"""What a small language model is made of, as data: a sweep can change one thing at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from torch import nn

from attnscope.errors import InputError
from attnscope.nn.blocks import DecoderLayer, EncoderLayer, check_choices
from attnscope.nn.droprates import Dropouts
from attnscope.nn.embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from attnscope.nn.feedforward import FeedForward
from attnscope.nn.init.applying import apply
from attnscope.nn.init.schemes import ScaledResidual, Scheme
from attnscope.nn.kinds import described, is_count, is_part
from attnscope.nn.masks import Causal, holds
from attnscope.nn.norms import MakeNorm, Placement
from attnscope.nn.positions import ALiBi, Rotary

__all__ = ["Design", "PositionsName", "check_design"]

PositionsName: TypeAlias = Literal["learned", "sinusoidal", "rotary", "alibi", "none"]
Parts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Design:
    """The sizes and choices of a language model or encoder-decoder.

    vocabulary: number of tokens; width: features of a token; layers: of the decoder, and of the
    encoder where there is one; heads: of the queries.
    positions: "learned" or "sinusoidal" vectors added to the tokens, "rotary" or "alibi" in every
    self-attention, or "none"; longest: positions of a learned table.
    feed_forward, norm, placement, dropout, bias: as for `EncoderLayer`.
    tied: the head is the embedding's own table (Press & Wolf 2017).
    scheme: how all weights are drawn; None: as torch draws them.
    attention: further parts of every self-attention (``{"kv_heads": 2, "scores": Softcap(50.0)}``).
    A module in a mapping is a pattern: each stack of layers has a copy of it, which its layers
    share, as T5 shares its bias. A function that returns a mapping is asked once a layer. A mask
    that holds a `Causal` is taken as it is, so that ``Causal() | Prefix(n)`` makes a prefix-LM
    (whose labels of the prefix are for the caller to set to -100); else no token sees a later one,
    and what ``mask`` shows is what is left of them.

    Raises:
        InputError: sizes that are no positive numbers, choices of another kind, or positions that
            have no name here.

    Example:
        >>> Design(vocabulary=100).width
        64
    """

    vocabulary: int
    width: int = 64
    layers: int = 2
    heads: int = 4
    positions: PositionsName = "rotary"
    longest: int = 512
    feed_forward: FeedForward = field(default_factory=FeedForward)
    norm: MakeNorm = nn.LayerNorm
    placement: Placement = "pre"
    dropout: Dropouts = field(default_factory=Dropouts)
    tied: bool = True
    bias: bool = True
    scheme: Scheme | None = field(default_factory=ScaledResidual)
    attention: Parts | Callable[[], Parts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse sizes, parts and positions that make no model."""
        for name in ("vocabulary", "width", "layers", "heads", "longest"):
            if not is_count(getattr(self, name)):
                raise InputError(
                    doing="designing a language model",
                    found=f"{name}={getattr(self, name)!r}",
                    todo="give a positive whole number",
                )
        check_choices(self.feed_forward, self.norm, self.dropout)
        if self.scheme is not None and not is_part(self.scheme, "std"):
            raise InputError(
                doing="designing a language model",
                found=f"scheme: {described(self.scheme)}",
                todo="give one of attnscope.nn.init, such as init.Normal(), or None",
            )
        if not isinstance(self.attention, Mapping) and not callable(self.attention):
            raise InputError(
                doing="designing a language model",
                found=f"attention: {described(self.attention)}",
                todo='give a mapping of parts, such as {"kv_heads": 2}, or a function of none',
            )
        if self.positions not in get_args(PositionsName):
            raise InputError(
                doing="designing a language model",
                found=f"positions={self.positions!r}",
                todo=f"use one of {', '.join(get_args(PositionsName))}",
            )

    def embedding(self, *, factor: float = 1.0) -> TokenEmbedding:
        """Return the embedding of tokens and absolute positions."""
        positions: nn.Module | None = None
        if self.positions == "learned":
            positions = LearnedPositions(self.longest, self.width)
        elif self.positions == "sinusoidal":
            positions = SinusoidalPositions(self.width)
        return TokenEmbedding(
            self.vocabulary, self.width, positions, factor=factor, dropout=self.dropout.embedding
        )

    def encoder(self, *, causal: bool) -> nn.ModuleList:
        """Return the layers of self-attention, causal in a decoder-only model."""
        return self._stack(EncoderLayer, causal=causal)

    def decoder(self) -> nn.ModuleList:
        """Return the layers with attention to a memory."""
        return self._stack(DecoderLayer, causal=True)

    def last_norm(self) -> nn.Module:
        """Return the norm behind the last layer: under "post" each layer has ended with one."""
        return nn.Identity() if self.placement == "post" else self.norm(self.width)

    def head(self, embedding: TokenEmbedding) -> nn.Linear:
        """Return the projection to the vocabulary, tied to the embedding or not."""
        head = nn.Linear(self.width, self.vocabulary, bias=False)
        if self.tied:
            head.weight = embedding.tokens.weight
        return head

    def draw(self, model: nn.Module) -> None:
        """Draw all weights of a model of this design."""
        if self.scheme is not None:
            apply(model, self.scheme)

    def _choices(self) -> dict[str, Any]:
        return {
            "feed_forward": self.feed_forward,
            "norm": self.norm,
            "placement": self.placement,
            "dropout": self.dropout,
            "bias": self.bias,
        }

    def _stack(self, kind: type[EncoderLayer | DecoderLayer], *, causal: bool) -> nn.ModuleList:
        """Return all layers; they share the parts of a mapping with each other, and no more."""
        given = self.attention
        if not callable(given):
            shared = _copied(given)
            given = lambda: shared  # noqa: E731  one mapping for all layers
        return nn.ModuleList(
            kind(self.width, self.heads, **self._choices(), **self._parts(given(), causal=causal))
            for _ in range(self.layers)
        )

    def _parts(self, given: Parts, *, causal: bool) -> dict[str, Any]:
        parts = dict(given)
        if self.positions in {"rotary", "alibi"}:
            parts.setdefault("positions", Rotary() if self.positions == "rotary" else ALiBi())
        mask = parts.get("mask")
        if causal and (mask is None or not holds(mask, Causal)):
            parts["mask"] = Causal() if mask is None else Causal() & mask
        return parts


def _copied(parts: Parts) -> dict[str, Any]:
    """Return the parts with copies of all modules; one that stands twice stays one."""
    memo: dict[int, Any] = {}
    return {
        name: copy.deepcopy(part, memo) if isinstance(part, nn.Module) else part
        for name, part in parts.items()
    }


def check_design(design: object) -> None:
    """Refuse what is no design.

    Raises:
        InputError: another kind of object.
    """
    if not isinstance(design, Design):
        raise InputError(
            doing="building a model",
            found=described(design),
            todo="give Design(vocabulary=…, width=…, layers=…)",
        )
