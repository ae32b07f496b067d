"""A small encoder-decoder: two stacks of layers that meet in the decoder's second attention."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnscope.nn.cache import AllOrNone, KeyValueCache, check_caches
from attnscope.nn.design import Design, check_design
from attnscope.nn.generation import Sampling, check_prompt, extend
from attnscope.nn.language_model import (
    LanguageOutput,
    check_complete,
    new_caches,
    next_token_loss,
)
from attnscope.nn.padded import Real, check_real, seeing_of

__all__ = ["EncoderDecoder"]


class EncoderDecoder(nn.Module):
    """Predicts each target token from those before it and from all of the source.

    The encoder sees the source both ways, the decoder is causal and attends to what the encoder
    returns. One vocabulary serves both sides; embeddings are multiplied by √width where they are
    the head's table too.

    Args:
        design: sizes and choices, the same for both stacks.

    Source: Vaswani et al. 2017, with ``positions="sinusoidal"`` and ``placement="post"``; Raffel et
    al. 2020 (T5) is its relative in "pre".

    Example:
        >>> model = EncoderDecoder(Design(vocabulary=50, width=32, heads=4)).eval()
        >>> source, target = torch.tensor([[3, 1, 4, 1, 5]]), torch.tensor([[1, 2, 6]])
        >>> model(source, target, labels=target).logits.shape
        torch.Size([1, 3, 50])
        >>> model.generate(source, target[:, :1], 4).shape
        torch.Size([1, 5])
    """

    def __init__(self, design: Design) -> None:
        super().__init__()
        check_design(design)
        self.design = design
        self.embed = design.embedding(factor=math.sqrt(design.width) if design.tied else 1.0)
        self.encoder = design.encoder(causal=False)
        self.encoder_norm = design.last_norm()
        self.decoder = design.decoder()
        self.decoder_norm = design.last_norm()
        self.head = design.head(self.embed)
        design.draw(self)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch tokens"],
        labels: Int[Tensor, "batch tokens"] | None = None,
        *,
        source_real: Real | None = None,
        target_real: Real | None = None,
        memory: Float[Tensor, "batch source width"] | None = None,
        cache: list[KeyValueCache] | None = None,
    ) -> LanguageOutput:
        """Return the logits of the token after each target token, and the loss with labels.

        Args:
            source: token ids of what is read.
            target: token ids of what is written, a start token first.
            labels: usually target itself: ``labels[t + 1]`` is compared with the logits at t;
                -100 = not learned from.
            source_real: (batch, source), True = real token, False = padding, left or right.
            target_real: the same for all target tokens so far.
            memory: what `encode` returned for this source; None: it is encoded.
            cache: of `new_cache`: `target` are the tokens that follow those in it.

        Raises:
            InputError: ids, labels, padding or caches that don't fit; no cache has grown then.
        """
        check_caches(cache, len(self.decoder))
        if memory is None:
            memory = self.encode(source, source_real)
        hidden = None
        if source_real is not None:
            check_real(source_real, source)
            hidden = ~source_real  # torch's: True = padding
        positions, seeing = seeing_of(target, target_real, cache)
        check_complete(self.decoder, cache, target, target_real)
        with AllOrNone(cache or ()):
            x = self.embed(target, positions)
            for number, layer in enumerate(self.decoder):
                own = None if cache is None else cache[number]
                x = layer(x, memory, memory_key_padding_mask=hidden, cache=own, **seeing)
            logits = self.head(self.decoder_norm(x))
            loss = None if labels is None else next_token_loss(logits, labels)
        return LanguageOutput(logits, loss, cache)

    def encode(
        self, source: Int[Tensor, "batch source"], real: Real | None = None
    ) -> Float[Tensor, "batch source width"]:
        """Return the memory: the encoder's output for a source."""
        positions, seeing = seeing_of(source, real)
        x = self.embed(source, positions)
        for layer in self.encoder:
            x = layer(x, **seeing)
        memory: Tensor = self.encoder_norm(x)
        return memory

    def new_cache(self) -> list[KeyValueCache]:
        """Return an empty cache for each layer of the decoder."""
        return new_caches(self.decoder)

    def generate(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch tokens"],
        count: int,
        *,
        sampling: Sampling | None = None,
        source_real: Real | None = None,
        target_real: Real | None = None,
        cached: bool = True,
    ) -> Int[Tensor, "batch all"]:
        """Return `target` with `count` more tokens; arguments as for `CausalLanguageModel`."""
        check_prompt(target, count, sampling, target_real)
        with torch.no_grad():
            memory = self.encode(source, source_real)
        cache = self.new_cache() if cached else None

        def predict(all_ids: Tensor, all_real: Tensor | None) -> Tensor:
            start = cache[0].length if cache else 0
            logits: Tensor = self(
                source,
                all_ids[:, start:],
                source_real=source_real,
                target_real=all_real,
                memory=memory,
                cache=cache,
            ).logits
            return logits

        return extend(predict, target, count, sampling, target_real)
