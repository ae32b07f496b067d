"""A small causal language model: embedding, layers, head, in one screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.errors import InputError
from attnscope.nn.cache import AllOrNone, KeyValueCache, check_caches
from attnscope.nn.design import Design, check_design
from attnscope.nn.generation import Sampling, extend
from attnscope.nn.kinds import described, is_whole
from attnscope.nn.masks import is_causal
from attnscope.nn.multihead import MultiheadAttention
from attnscope.nn.padded import Real, positions_of, seeing_of

__all__ = ["CausalLanguageModel", "LanguageOutput", "new_caches", "next_token_loss"]

IGNORED = -100
"""A label that is not learned from, as in `F.cross_entropy` and Hugging Face."""


@dataclass
class LanguageOutput:
    """What a language model returns.

    logits: (batch, tokens, vocabulary), of the token that follows each; loss: mean cross-entropy in
    nats, None without labels; cache: what was handed in, grown by these tokens.
    """

    logits: Float[Tensor, "batch tokens vocabulary"]
    loss: Tensor | None = None
    cache: list[KeyValueCache] | None = None


class CausalLanguageModel(nn.Module):
    """Predicts each token from those before it.

    ``x = embed(ids)``, then every layer, then ``logits = head(norm(x))``.

    Args:
        design: sizes and choices.

    Source: Radford et al. 2019 (GPT-2) with "learned", Touvron et al. 2023 (Llama) with "rotary",
    `nn.RMSNorm`, `swiglu()` and ``bias=False``.

    Example:
        >>> import torch
        >>> model = CausalLanguageModel(Design(vocabulary=50, width=32, heads=4)).eval()
        >>> ids = torch.tensor([[3, 1, 4, 1, 5]])
        >>> output = model(ids, labels=ids)
        >>> output.logits.shape, output.loss.ndim
        (torch.Size([1, 5, 50]), 0)
        >>> model.generate(ids, 3).shape
        torch.Size([1, 8])
    """

    def __init__(self, design: Design) -> None:
        super().__init__()
        check_design(design)
        self.design = design
        self.embed = design.embedding()
        self.layers = design.encoder(causal=True)
        self.norm = design.last_norm()
        self.head = design.head(self.embed)
        design.draw(self)

    def forward(
        self,
        ids: Int[Tensor, "batch tokens"],
        labels: Int[Tensor, "batch tokens"] | None = None,
        *,
        real: Real | None = None,
        cache: list[KeyValueCache] | None = None,
    ) -> LanguageOutput:
        """Return logits, and the loss where labels are given.

        Args:
            ids: token ids.
            labels: what ``ids`` should have been, usually ids themselves: ``labels[t + 1]`` is
                compared with the logits at t. -100 = not learned from.
            real: (batch, all tokens so far), True = real token, False = padding, left or right.
                Positions count real tokens alone. Labels of padding are the caller's to set.
            cache: of `new_cache`: `ids` are the tokens that follow those in it.

        Raises:
            InputError: ids, labels, padding or caches that don't fit; no cache has grown then.
        """
        check_caches(cache, len(self.layers))
        positions, seeing = seeing_of(ids, real, cache)
        check_complete(self.layers, cache, ids, real)
        with AllOrNone(cache or ()):
            x = self.embed(ids, positions)
            for number, layer in enumerate(self.layers):
                x = layer(x, cache=None if cache is None else cache[number], **seeing)
            logits = self.head(self.norm(x))
            loss = None if labels is None else next_token_loss(logits, labels)
        return LanguageOutput(logits, loss, cache)

    def new_cache(self) -> list[KeyValueCache]:
        """Return an empty cache for each layer."""
        return new_caches(self.layers)

    def generate(
        self,
        ids: Int[Tensor, "batch tokens"],
        count: int,
        *,
        sampling: Sampling | None = None,
        real: Real | None = None,
        cached: bool = True,
    ) -> Int[Tensor, "batch all"]:
        """Return `ids` with `count` more tokens: the likeliest, or drawn as `sampling` says.

        Args:
            ids: the prompts; where their lengths differ, padded left or right and told apart by
                `real`. New tokens stand behind the padding.
            count: tokens to add.
            sampling: temperature, top-k, generator; None: the likeliest token each time.
            real: (batch, tokens), True = real token.
            cached: keep keys and values of earlier tokens; the tokens are the same without.

        Raises:
            InputError: an empty prompt, arguments that don't fit; or a mask that shows tokens what
                is generated after them, of which a cache knows nothing.
        """
        cache = self.new_cache() if cached else None

        def predict(all_ids: Tensor, all_real: Tensor | None) -> Tensor:
            start = cache[0].length if cache else 0
            logits: Tensor = self(all_ids[:, start:], real=all_real, cache=cache).logits
            return logits

        return extend(predict, ids, count, sampling, real)


def new_caches(layers: Iterable[nn.Module]) -> list[KeyValueCache]:
    """Return an empty cache for the self-attention of each layer."""
    attentions = (layer.get_submodule("self_attn") for layer in layers)
    return [one.new_cache() for one in attentions if isinstance(one, MultiheadAttention)]


def check_complete(
    layers: Iterable[nn.Module], caches: Sequence[KeyValueCache] | None, ids: Tensor, real: Any
) -> None:
    """Refuse tokens that those in the cache should have seen: a prefix has to come as a whole.

    Args:
        layers: with the masks of their self-attention.
        caches: of the tokens before these.
        ids: the tokens of this forward.
        real: of all tokens so far; None: all are real.

    Raises:
        InputError: such a mask, as one with a prefix that is not all in the cache.
    """
    before = caches[0].length if caches else 0
    if torch.compiler.is_compiling() or not before:
        return
    if real is None:
        real = torch.ones(1, before + ids.shape[1], dtype=torch.bool, device=ids.device)
    counted, place = positions_of(real), torch.arange(real.shape[1], device=ids.device)
    for layer in layers:
        mask: Any = layer.get_submodule("self_attn").mask
        if mask is None or is_causal(mask):
            continue
        visible = mask.among(place[:before], place[before:], counted)
        if bool((visible & real[:, None, :before, None] & real[:, None, None, before:]).any()):
            raise InputError(
                doing="going on from a cache",
                found=f"the mask {mask}, which shows new tokens to some of the {before} before",
                todo="give the whole prefix in the first forward, or go without: cached=False",
            )


def next_token_loss(
    logits: Float[Tensor, "batch tokens vocabulary"], labels: Int[Tensor, "batch tokens"]
) -> Tensor:
    """Return the mean cross-entropy (nats) of ``labels[t + 1]`` under the logits at t.

    Labels of -100 are left out; where none is left the loss is 0.

    Raises:
        InputError: labels of another shape or type, or out of the vocabulary.

    Example:
        >>> import torch
        >>> logits = torch.zeros(1, 3, 4)  # uniform over 4 tokens: log 4 each
        >>> next_token_loss(logits, torch.tensor([[0, 1, -100]]))
        tensor(1.3863)
    """
    _check_labels(labels, logits)
    wanted = labels[:, 1:].flatten().long()
    total = F.cross_entropy(
        logits[:, :-1].flatten(0, 1), wanted, ignore_index=IGNORED, reduction="sum"
    )
    return total / (wanted != IGNORED).sum().clamp_min(1)


def _check_labels(labels: Tensor, logits: Tensor) -> None:
    """Refuse labels that are not one token of the vocabulary, or -100, for each row of logits.

    Raises:
        InputError: another type, shape or value.
    """
    found, vocabulary = None, logits.shape[-1]
    if not is_whole(labels, 2) or labels.shape != logits.shape[:-1]:
        found = f"labels: {described(labels)}, for logits {tuple(logits.shape)}"
    elif not torch.compiler.is_compiling():
        wrong = labels[(labels != IGNORED) & ((labels < 0) | (labels >= vocabulary))]
        if wrong.numel():
            found = f"the label {int(wrong[0])}, of a vocabulary of {vocabulary}"
    if found is not None:
        raise InputError(
            doing="comparing predictions with labels",
            found=found,
            todo=f"give one token of the vocabulary for each id, or {IGNORED} to leave it out",
        )
