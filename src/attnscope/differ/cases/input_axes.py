"""Which axes of an input are samples and tokens, and which mask says what is padding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

from attnscope.errors import InputError

__all__ = ["AxisReader", "Key", "Padding", "mask_like", "padding_of"]

Key: TypeAlias = str | int | tuple[str | int, int]
"""The name of an argument, or its place; with a number, one tensor of several that it holds."""

_KEEP = ("attention_mask", "decoder_attention_mask", "padding_mask", "keep_mask")
_DROP = ("key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask")


@dataclass(frozen=True, slots=True)
class Padding:
    """A mask (batch, length) among the inputs; keeps: True or 1 means a real token."""

    key: Key
    keeps: bool

    def real(self, mask: Tensor) -> Tensor:
        """Return the mask as True = real token."""
        return mask.bool() if self.keeps else ~mask.bool()

    def written(self, real: Tensor, like: Tensor) -> Tensor:
        """Return True = real token in the convention and type of a mask."""
        return (real if self.keeps else ~real).to(like.dtype)


def padding_of(
    values: Mapping[Key, Any], names: Mapping[Key, str], expect: Mapping[str, Any]
) -> Padding | None:
    """Return the padding mask among inputs, by what `expect` declares or by a well-known name."""
    declared, _, meaning = str(expect.get("padding") or "").partition(" ")
    meanings: dict[str, bool] = {**dict.fromkeys(_KEEP, True), **dict.fromkeys(_DROP, False)}
    if meaning in {"keep", "drop"}:
        meanings = {declared: meaning == "keep"}
    for key, value in values.items():
        table = isinstance(value, Tensor) and value.dim() == 2 and not value.is_floating_point()
        if table and names[key] in meanings:
            return Padding(key, meanings[names[key]])
    return None


@dataclass(slots=True)
class AxisReader:
    """Finds the axes of one tensor after another; at: the axis of the batch, 0 or 1."""

    batch: int
    length: int
    at: int
    batch_axes: dict[Key, int] = field(default_factory=dict)
    length_axes: dict[Key, dict[int, int]] = field(default_factory=dict)

    def read(self, key: Key, name: str, value: Tensor) -> None:
        """Find the axes of ids, embeddings, positions and other tensors that are no masks."""
        if mask_like(name, value):
            return
        shape, whole = value.shape, not value.is_floating_point()
        if value.dim() == 1:
            if shape[0] == self.batch and (self.batch != self.length or "len" in name):
                self.batch_axes[key] = 0
            elif shape[0] == self.length:
                self.length_axes[key] = {0: self.length}
            return
        sequence = value.dim() == (2 if whole else 3)
        if whole and value.dim() == 3 and shape[1:] == (self.batch, self.length):
            self.batch_axes[key], self.length_axes[key] = 1, {2: self.length}
            return
        if shape[self.at] == self.batch:
            self.batch_axes[key] = self.at
        if sequence and shape[self.at] in {self.batch, 1} and self.length:
            self.length_axes[key] = {1 - self.at: shape[1 - self.at]}

    def read_masks(self, values: Mapping[Key, Any], names: Mapping[Key, str]) -> None:
        """Find the axes of masks, when all lengths are known."""
        lengths = {size for axes in self.length_axes.values() for size in axes.values()}
        for key, value in values.items():
            if not isinstance(value, Tensor) or not mask_like(names[key], value):
                continue
            pairs = value.dim() == 2 and set(value.shape) <= lengths and value.shape[0] != 1
            table = value.dim() == 2 and value.shape[0] == self.batch
            if pairs and table:
                table = names[key] in {*_KEEP, *_DROP} or "padding" in names[key]
                if not table and names[key] not in {"attn_mask", "src_mask", "tgt_mask"}:
                    raise InputError(
                        "telling the axes of the inputs",
                        f"batch and length are both {self.batch}, so the axes of {names[key]} "
                        "can't be told",
                        "give inputs whose sizes differ",
                    )
                pairs = not table
            if value.dim() > 1 and not pairs and value.shape[0] == self.batch:
                self.batch_axes[key] = 0
            begin = 0 if pairs or value.dim() == 1 else 1
            axes = range(begin, value.dim()) if value.dim() < 4 else (2, 3)
            found = {axis: value.shape[axis] for axis in axes if value.shape[axis] in lengths}
            if found:
                self.length_axes[key] = found


def mask_like(name: str, value: Any) -> bool:
    """Return whether an input is a mask or a bias over pairs of tokens, by its name or type."""
    return isinstance(value, Tensor) and (
        value.dtype == torch.bool or "mask" in name or "bias" in name
    )
