"""Other inputs of the same kind: fewer samples, other lengths, padding, cut in all tensors alike.

What an axis means is told by what the tensors share. The first tensor gives batch and length;
ids, masks, embeddings and positions that have the same sizes are cut together with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnscope.differ.cases.input_axes import AxisReader, Key, Padding, mask_like, padding_of
from attnscope.differ.sides.subject import Inputs, Subject
from attnscope.errors import InputError

__all__ = ["Arrangement", "arrange"]

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """Inputs, and which axes of each tensor are samples and tokens.

    names: of all arguments, as the reference calls them. batch_axes: of the tensors that have one.
    length_axes: of each tensor its axes of tokens, with their sizes. batch, length: of the first
    tensor; 0 where it has no such axis. refusal: why nothing can be cut, or "".
    """

    inputs: Inputs
    names: Mapping[Key, str]
    batch_axes: Mapping[Key, int]
    length_axes: Mapping[Key, Mapping[int, int]]
    batch: int
    length: int
    padding: Padding | None = None
    refusal: str = ""
    values: Mapping[Key, Any] = field(default_factory=dict)

    @property
    def lengths(self) -> tuple[int, ...]:
        """All numbers of tokens, that of the first tensor first."""
        sizes = {size for axes in self.length_axes.values() for size in axes.values()}
        return (self.length, *sorted(sizes - {self.length})) if self.length else ()

    @property
    def padding_sides(self) -> frozenset[str]:
        """On which sides the inputs are padded already."""
        real = self.real
        if real is None:
            return frozenset()
        ends = {"left": real[:, 0], "right": real[:, -1]}
        return frozenset(side for side, tokens in ends.items() if not bool(tokens.all()))

    @property
    def real(self) -> Tensor | None:
        """Which tokens are real, (batch, length); None: nothing says that any is not."""
        return None if self.padding is None else self.padding.real(self.values[self.padding.key])

    def samples(self, chosen: Sequence[int]) -> Inputs:
        """Return the inputs of these samples."""
        return self._changed(
            {
                key: value.index_select(self.batch_axes[key], _index(chosen, value))
                for key, value in self.values.items()
                if key in self.batch_axes
            }
        )

    def one_more(self) -> Inputs:
        """Return the inputs with a further sample: the first one, its tokens moved by one."""

        def more(key: Key, value: Tensor) -> Tensor:
            first = value.narrow(self.batch_axes[key], 0, 1)
            axes = self.length_axes.get(key, {})
            if len(axes) == 1 and not self._is_mask(key):
                first = first.roll(1, next(iter(axes)))
            elif not axes and value.dim() > 1:
                first = first.roll(1, -1)
            return torch.cat((value, first), self.batch_axes[key])

        return self._changed({key: more(key, self.values[key]) for key in self.batch_axes})

    def window(self, start: int, stop: int, length: int | None = None) -> Inputs:
        """Return the tokens from start to stop alone, wherever there are `length` of them."""
        length = self.length if length is None else length
        changed: dict[Key, Any] = {}
        for key, axes in self.length_axes.items():
            value = self.values[key]
            for axis, size in axes.items():
                if size == length:
                    value = value.narrow(axis, start, stop - start)
            changed[key] = value
        for key, value in self.values.items():
            if "len" not in self.names[key]:
                continue
            if isinstance(value, Tensor) and not value.is_floating_point():
                changed[key] = value.clamp(max=stop - start)
            elif isinstance(value, int) and value == length:
                changed[key] = stop - start
        return self._changed(changed)

    def shorter(self, count: int, length: int | None = None) -> Inputs | None:
        """Return the first, else the last `count` tokens; None: a sample would have no real one."""
        length = self.length if length is None else length
        for start in (0, length - count):
            inputs = self.window(start, start + count, length)
            if self.padding is None:
                return inputs
            mask = dict(_items(inputs))[self.padding.key]
            if bool(self.padding.real(mask).any(-1).all()):
                return inputs
        return None

    def longer(self, count: int) -> Inputs | None:
        """Return the tokens repeated to `count`, none of them padding; None: it can't be made."""
        changed: dict[Key, Any] = {}
        for key, axes in self.length_axes.items():
            value = self.values[key]
            if len(axes) != 1 or next(iter(axes.values())) != self.length:
                if self.length in axes.values():
                    return None
                continue
            axis = next(iter(axes))
            repeated = torch.cat([value] * (count // self.length + 1), axis).narrow(axis, 0, count)
            if self.padding is not None and key == self.padding.key:
                repeated = self.padding.written(torch.ones_like(repeated).bool(), repeated)
            elif "pos" in self.names[key]:
                if value.is_floating_point():
                    return None
                repeated = torch.arange(count, device=value.device).to(value).expand_as(repeated)
            elif self._is_mask(key):
                return None
            changed[key] = repeated
        if any("len" in self.names[key] for key in self.values):
            return None
        return self._changed(changed)

    def padded(self, padding: Padding, *, left: bool, filler: int | None = None) -> Inputs:
        """Return the inputs with padding on one side, more in each sample; each keeps a real token.

        filler: the id that stands for padding, put in where it is known.
        """
        real = torch.ones(self.batch, self.length, dtype=torch.bool)
        for sample in range(self.batch):
            most = sample if self.batch > 1 else 1
            count = min(most * max(self.length // 4, 1), self.length - 1)
            real[sample, slice(count) if left else slice(self.length - count, None)] = False
        ids = next(iter(self.length_axes))
        mask = self.values.get(padding.key)
        tensor = mask if isinstance(mask, Tensor) else real.long() if padding.keeps else real
        changed: dict[Key, Any] = {padding.key: padding.written(real.to(tensor.device), tensor)}
        value = self.values[ids]
        if filler is not None and not value.is_floating_point() and value.shape == real.shape:
            changed[ids] = value.masked_fill(~real.to(value.device), filler)
        return self._changed(changed)

    def cast(self, dtype: torch.dtype) -> Inputs:
        """Return the inputs with all floats in another type."""
        return self._changed(
            {
                key: value.to(dtype)
                for key, value in self.values.items()
                if isinstance(value, Tensor) and value.is_floating_point()
            }
        )

    def step(self, start: int, stop: int) -> Inputs:
        """Return what a decoder gets with a cache: the tokens from start, masks over all so far."""
        changed: dict[Key, Any] = {}
        for key, axes in self.stepped.items():
            value = self.values[key]
            for at, axis in enumerate(sorted(axes)):
                over_keys = self._is_mask(key) and at == len(axes) - 1
                begin = 0 if over_keys else start
                value = value.narrow(axis, begin, stop - begin)
            changed[key] = value
        return self._changed(changed)

    def with_values(self, inputs: Inputs) -> Arrangement:
        """Return other inputs of the same shapes."""
        return replace(self, inputs=inputs, values=dict(_items(inputs)))

    @property
    def stepped(self) -> dict[Key, Mapping[int, int]]:
        """The tensors that grow by a token when one is decoded, with their axes of tokens.

        In an encoder-decoder those of the decoder, told by their names.
        """
        decoders = [key for key in self.length_axes if self.is_decoder(key)]
        keys = decoders or list(self.length_axes)
        length = self.values[keys[0]].shape[min(self.length_axes[keys[0]])] if keys else 0
        return {
            key: {axis: size for axis, size in self.length_axes[key].items() if size == length}
            for key in keys
        }

    def is_decoder(self, key: Key) -> bool:
        """Return whether an argument belongs to the second sequence of an encoder-decoder."""
        return self.names[key].startswith(("decoder_", "tgt", "target"))

    def _is_mask(self, key: Key) -> bool:
        return mask_like(self.names[key], self.values[key])

    def _changed(self, changed: Mapping[Key, Any]) -> Inputs:
        values = {**self.values, **changed}
        first: dict[int, Key] = {}
        for key, value in self.values.items():  # one tensor given several times stays one
            same = first.setdefault(id(value), key)
            if isinstance(value, Tensor) and key in changed and same in changed:
                values[key] = values[same]
        whole: dict[Any, Any] = {}
        for key, value in values.items():
            if isinstance(key, tuple):
                whole[key[0]] = (*whole.get(key[0], ()), value)
            else:
                whole[key] = value
        if isinstance(self.inputs, Mapping):
            return whole
        return tuple(whole[at] for at in range(len(self.inputs)))


def arrange(inputs: Inputs, reference: Subject, expect: Mapping[str, Any]) -> Arrangement:
    """Return inputs with the meaning of their axes.

    Axes are (batch, length, …) unless `expect` names others, or the module says batch_first=False.
    """
    values = dict(_items(inputs))
    parameters = [parameter.name for parameter in reference.parameters_of_run()]
    names = {key: _name(key, parameters) for key in values}
    empty = Arrangement(inputs, names, {}, {}, 0, 0, values=values)
    nested = next((v for v in values.values() if not isinstance(v, (Tensor, *_PLAIN))), None)
    if nested is not None:
        return replace(empty, refusal=f"the inputs hold a {type(nested).__name__}")
    first = next((v for v in values.values() if isinstance(v, Tensor) and v.dim() > 1), None)
    if first is None:
        return replace(empty, refusal="no input has a batch and a length")
    at = 1 if _sequence_first(reference, expect) else 0
    has_length = first.dim() == (3 if first.is_floating_point() else 2)
    reader = AxisReader(first.shape[at], first.shape[1 - at] if has_length else 0, at)
    try:
        for key, value in values.items():
            if isinstance(value, Tensor) and value.dim():
                reader.read(key, names[key], value)
        reader.read_masks(values, names)
    except InputError as error:
        return replace(empty, refusal=error.found)
    padding = padding_of(values, names, expect)
    mask = values.get(padding.key) if padding is not None else None
    table = isinstance(mask, Tensor) and tuple(mask.shape) == (reader.batch, reader.length)
    return replace(
        empty,
        batch_axes=reader.batch_axes,
        length_axes=reader.length_axes,
        batch=reader.batch,
        length=reader.length,
        padding=padding if table else None,
    )


def _sequence_first(reference: Subject, expect: Mapping[str, Any]) -> bool:
    if "batch_axis" in expect or "sequence_axis" in expect:
        return bool(expect.get("batch_axis", 1 - expect.get("sequence_axis", 1)) == 1)
    declared = getattr(reference.model, "batch_first", True)
    if type(reference.model).__module__.startswith("torch.nn"):
        inner = [module for module in reference.model.modules() if hasattr(module, "batch_first")]  # type: ignore[union-attr]
        declared = inner[0].batch_first if inner else declared
    return declared is False


def _items(inputs: Inputs) -> Sequence[tuple[Key, Any]]:
    """Return the values by key; tensors in a tuple or list one by one."""
    named = inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs)
    found: list[tuple[Key, Any]] = []
    for name, value in named:
        several = isinstance(value, tuple | list) and len(value) > 0
        if several and all(isinstance(each, Tensor) for each in value):
            found += [((name, at), each) for at, each in enumerate(value)]
        else:
            found.append((name, value))
    return found


def _name(key: Key, parameters: Sequence[str]) -> str:
    at = key[0] if isinstance(key, tuple) else key
    if isinstance(at, str):
        return at
    return parameters[at] if at < len(parameters) else str(at)


def _index(chosen: Sequence[int], value: Tensor) -> Tensor:
    return torch.tensor(list(chosen), device=value.device)
