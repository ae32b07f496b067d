"""What a small language model is made of, as data: a sweep can change one thing at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from torch import nn

from attnscope.errors import InputError
from attnscope.nn.blocks import DecoderLayer, EncoderLayer
from attnscope.nn.droprates import Dropouts
from attnscope.nn.embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from attnscope.nn.feedforward import FeedForward
from attnscope.nn.init.applying import apply
from attnscope.nn.init.schemes import ScaledResidual, Scheme
from attnscope.nn.masks import Causal, Mask
from attnscope.nn.norms import MakeNorm, Placement
from attnscope.nn.positions import ALiBi, Rotary

__all__ = ["Design", "PositionsName"]

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
    A module in a mapping is shared by all layers, as T5 shares its bias; a function that returns a
    mapping is asked once a layer.

    Raises:
        InputError: positions that have no name here.

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
        """Refuse positions that have no name."""
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

    def encoder_layer(self, *, causal: bool) -> EncoderLayer:
        """Return one layer of self-attention, causal in a decoder-only model."""
        return EncoderLayer(self.width, self.heads, **self._choices(), **self._parts(causal=causal))

    def decoder_layer(self) -> DecoderLayer:
        """Return one layer with attention to a memory."""
        return DecoderLayer(self.width, self.heads, **self._choices(), **self._parts(causal=True))

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

    def _parts(self, *, causal: bool) -> dict[str, Any]:
        parts = dict(self.attention() if callable(self.attention) else self.attention)
        if self.positions in {"rotary", "alibi"}:
            parts.setdefault("positions", Rotary() if self.positions == "rotary" else ALiBi())
        given: Mask | None = parts.get("mask")
        if causal:
            parts["mask"] = Causal() if given is None else Causal() & given
        return parts
