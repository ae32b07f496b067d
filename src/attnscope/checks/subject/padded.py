"""How the inputs of a subject say which tokens are padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnscope.checks.attributes import attribute
from attnscope.checks.subject import names as habits
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Padding, Roles, Stream

__all__ = ["paddings", "stream_of"]

_DECLARED: tuple[Literal["keep", "drop", "lengths"], ...] = ("keep", "drop", "lengths")


def paddings(run: Any, given: Given, expect: Mapping[str, Any], roles: Roles) -> Iterator[Padding]:
    """Iterate over what tells padding: what `expect` declares, then what names and values show."""
    done: set[str] = set()
    for padding in (
        *_declared(given, expect, roles),
        *_masks(given, roles),
        *_ids(run, given, roles),
    ):
        if padding.stream.name not in done:
            done.add(padding.stream.name)
            yield padding


def _declared(given: Given, expect: Mapping[str, Any], roles: Roles) -> Iterator[Padding]:
    name, _, meaning = str(expect.get("padding") or "").partition(" ")
    if not name:
        return
    stream = roles.stream(name) or stream_of(name, given, roles)
    if stream is None:
        return
    why, is_given = "declared", given.values.get(name) is not None
    if meaning.startswith("pad="):
        pad_id = int(meaning.removeprefix("pad="))
        yield Padding(name, "pad", stream, pad_id, declared=True, why=why, given=is_given)
    for known in _DECLARED:
        if meaning == known:
            yield Padding(name, known, stream, None, declared=True, why=why, given=is_given)


def _masks(given: Given, roles: Roles) -> Iterator[Padding]:
    """Padding by a mask (batch, length) or by lengths, given or at least taken by the forward."""
    taken = [p.name for p in given.parameters if given.values.get(p.name) is None]
    for name in (*given.values, *taken):
        value = given.values.get(name)
        stream = stream_of(name, given, roles)
        if stream is None or stream.sequence_axis is None:
            continue
        if (
            habits.is_lengths(name)
            and isinstance(value, Tensor)
            and value.numel() == stream.batch(given)
        ):
            yield Padding(name, "lengths", stream, why=f"{name} has one length a sample")
        elif isinstance(value, Tensor):
            if habits.is_mask(name) or value.dtype == torch.bool:
                yield from _by_values(name, value, stream, given)
        elif name in {"attention_mask", "decoder_attention_mask"} or "key_padding_mask" in name:
            meaning = habits.mask_meaning(name) or "keep"
            yield Padding(name, meaning, stream, why="by its name", given=False)


def _by_values(name: str, value: Tensor, stream: Stream, given: Given) -> Iterator[Padding]:
    """Read a mask (batch, length), (batch, 1, 1, length) and the like."""
    batch, length = stream.batch(given), stream.length(given)
    if value.layout != torch.strided:
        return
    flat = (
        value.reshape(value.shape[0], -1)
        if value.dim() > 1 and value[0].numel() in {batch, length}
        else None
    )
    if flat is None or tuple(flat.shape) not in {(batch, length), (length, batch)}:
        return
    if (
        batch == length
        and value.dim() == 2
        and habits.mask_meaning(name) is None
        and "pad" not in name
    ):
        return  # may as well be one of (queries, keys)
    meaning, why = habits.mask_meaning(name), "by its name"
    shown = _shown_by_values(flat, stream, given)
    if shown is not None and (meaning is None or name not in _EXACT):
        meaning, why = shown, "the tokens that it marks are all alike, as padding is"
    if meaning is not None:
        yield Padding(name, meaning, stream, why=why)


_EXACT = frozenset({"attention_mask", "decoder_attention_mask", "key_padding_mask"})


def _shown_by_values(flat: Tensor, stream: Stream, given: Given) -> Literal["keep", "drop"] | None:
    """Return what True means, where the tokens on one side of the mask are all alike."""
    tokens = given.values[stream.name]
    if stream.batch_axis == 1:
        tokens = tokens.transpose(0, 1)
    marked = flat.bool() if flat.shape == tokens.shape[:2] else flat.mT.bool()
    if marked.shape != tokens.shape[:2] or bool(marked.all()) or not bool(marked.any()):
        return None
    inside, outside = tokens[marked], tokens[~marked]
    alike = [len(torch.unique(side, dim=0)) == 1 and len(side) > 1 for side in (inside, outside)]
    if alike == [True, False]:
        return "drop"
    return "keep" if alike == [False, True] else None


def _ids(run: Any, given: Given, roles: Roles) -> Iterator[Padding]:
    """Padding that token ids tell by themselves: `padding_idx` of an embedding, or the config's."""
    for stream in roles.streams:
        if stream.kind != "ids" or stream.sequence_axis is None:
            continue
        pad_id, why = _pad_id(run)
        if pad_id is not None and bool((given.values[stream.name] == pad_id).any()):
            yield Padding(stream.name, "pad", stream, pad_id, why=why)


def _pad_id(run: Any) -> tuple[int | None, str]:
    if not isinstance(run, nn.Module):
        return None, ""
    for name, module in run.named_modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            return (
                module.padding_idx,
                f"{name or 'the embedding'} has padding_idx={module.padding_idx}",
            )
    for owner in (run, attribute(run, "config")):
        for name in ("pad_token_id", "pad_id", "pad_idx", "padding_idx", "src_pad_idx"):
            value = attribute(owner, name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value, f"its {name} is {value}"
    return None, ""


def _has_decoders_own(name: str, given: Given) -> bool:
    """Return whether the decoder has a mask beside this one, which then is the encoder's."""
    return given.accepts(f"decoder_{name}") or given.accepts(name.replace("src", "tgt", 1))


def _first_word(name: str) -> str:
    return name.lower().partition("_")[0]


def stream_of(name: str, given: Given, roles: Roles) -> Stream | None:
    """Return the sequence that a mask speaks of: by its sizes, then by its name."""
    value = given.values.get(name)
    sequences = [s for s in roles.streams if s.sequence_axis is not None]
    if isinstance(value, Tensor):
        fits = [s for s in sequences if s.length(given) in value.shape]
        sequences = fits or sequences
    named = [s for s in sequences if _first_word(s.name) == _first_word(name)]
    if len(named) == 1:  # video_pad is that of video
        return named[0]
    for_memory = habits.is_memory(name.replace("_key_padding_mask", "").replace("_mask", ""))
    memory = [s for s in sequences if s.memory] if for_memory else []
    decoder = name.startswith(("decoder", "tgt"))
    both = [s for s in sequences if s.name.startswith(("decoder", "tgt"))]
    if both and not decoder and _has_decoders_own(name, given):
        sequences = memory = [s for s in sequences if s not in both]
    main = [s for s in sequences if not s.memory or decoder]
    chosen = memory or main or sequences
    if name == "key_padding_mask":  # of nn.MultiheadAttention: the keys', whichever they are
        chosen = [s for s in sequences if s.memory] or chosen
    return chosen[0] if chosen else None
