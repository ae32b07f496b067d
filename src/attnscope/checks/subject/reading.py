"""Works out what the inputs of a subject are, from names, types, sizes, code and `expect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.checks.attributes import attribute
from attnscope.checks.subject import names as habits
from attnscope.checks.subject.code import batch_axis_in_code, batch_axis_in_words, names_of_sizes
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.padded import paddings
from attnscope.checks.subject.roles import Kind, Roles, Stream
from attnscope.differ.sides.subject import takes_qkv

__all__ = ["read_roles"]


def read_roles(run: Any, given: Given, expect: Mapping[str, Any]) -> Roles:
    """Return what the inputs are; nothing is run."""
    return _Reader(run, given, expect).read()


@dataclass(eq=False)
class _Reader:
    run: Any
    given: Given
    expect: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def read(self) -> Roles:
        streams = tuple(self._streams())
        taken = {stream.name for stream in streams}
        others = {n: t for n, t in self.given.tensors() if n not in taken}
        batch_axes, length_axes = self._axes(streams, others)
        roles = Roles(
            streams,
            batch_axes,
            length_axes,
            positions=self._named("positions", habits.is_positions),
            documents=self._named("documents", habits.is_segments),
            cache=self._named("cache", habits.is_past),
            masks=tuple(n for n, t in others.items() if habits.is_mask(n) or t.dtype == torch.bool),
        )
        found = paddings(self.run, self.given, self.expect, roles)
        return replace(roles, padding=tuple(found), notes=tuple(self.notes))

    # -- sequences -----------------------------------------------------------------------------

    def _streams(self) -> Iterator[Stream]:
        counting = {self._counting(tensor) for _, tensor in self.given.tensors()}
        others = [(n, t) for n, t in self.given.tensors() if n not in counting]
        found = [stream for name, tensor in others if (stream := self._stream(name, tensor))]
        if found and all(stream.memory for stream in found):  # f(key, value): the first is asked
            found[0] = replace(found[0], memory=False)
        if len([s for s in found if not s.memory]) > 1:
            found = self._with_one_main(found)
        found = self._with_one_batch(found)
        known: set[int] = set()
        for stream in sorted(found, key=lambda each: each.memory):
            tensor = self.given.values[stream.name]
            if id(tensor) not in known:
                known.add(id(tensor))
                yield stream

    def _with_one_batch(self, found: list[Stream]) -> list[Stream]:
        """Turn sequences whose axes are assumed, where that gives all one number of samples."""
        lead = next((s for s in found if s.certain), None) or next(
            (s for s in found if s.kind == "ids"), None
        )
        if lead is None:
            return self._with_common_batch(found)
        batch = lead.batch(self.given)
        return [self._turned(stream, batch, lead) for stream in found]

    def _with_common_batch(self, found: list[Stream]) -> list[Stream]:
        """Turn sequences of several lengths where only their second axes agree: the samples."""
        unsure = [s for s in found if s.sequence_axis == 1 and s.batch_axis == 0]
        first, second = ({self.given.values[s.name].shape[n] for s in unsure} for n in (0, 1))
        if len(unsure) < len(found) or len(first) < 2 or len(second) > 1 or 1 in first | second:
            return found
        why = f"all sequences have {second.pop()} in their second axis, and differ in the first"
        return [replace(s, batch_axis=1, sequence_axis=0, certain=True, why=why) for s in found]

    def _turned(self, stream: Stream, batch: int, lead: Stream) -> Stream:
        shape = self.given.values[stream.name].shape
        unsure = not stream.certain and stream.sequence_axis is not None
        if stream is lead or not unsure or stream.batch_axis is None or len(shape) < 2:
            return stream
        if shape[stream.batch_axis] == batch or shape[1 - stream.batch_axis] != batch:
            return stream
        why = f"{lead.name} has {batch} samples"
        axis = 1 - stream.batch_axis
        return replace(stream, batch_axis=axis, sequence_axis=1 - axis, certain=True, why=why)

    def _with_one_main(self, found: list[Stream]) -> list[Stream]:
        """Take the decoder's sequence as the main one where there are an encoder's and another."""
        decoders = [s for s in found if s.name.startswith(("decoder", "tgt", "target"))]
        if not decoders:
            return found
        return [replace(s, memory=s.memory or s not in decoders) for s in found]

    def _stream(self, name: str, tensor: Tensor) -> Stream | None:
        kind = self._kind(name, tensor)
        if kind is None:
            return None
        memory = habits.is_memory(name) and len(list(self.given.tensors())) > 1
        if kind == "heads":
            return Stream(name, kind, 0, tensor.dim() - 2, memory, certain=True, why="q, k, v")
        counting = self._counting(tensor) if kind == "image" or tensor.dim() == 2 else None
        if counting is not None:
            why = f"{counting} counts the rows of each sample"
            return Stream(name, kind, None, 0, memory, certain=True, why=why)
        if kind == "image":
            certain = tensor.dim() == 4 and not habits.is_video(name)
            why = "pictures: the batch is the first axis"
            return Stream(name, kind, 0, None, memory, certain, why)
        if tensor.dim() == 2 and kind == "features" and not _is_torch_layer(self.run):
            return self._table(name, memory=memory)
        if kind == "ids" and tensor.dim() > 2:  # rows and columns of a table, frames, codebooks
            said = self._said_by_code(name)
            axis, why = said if said is not None else (0, "")
            why = why or "assumed: the batch is the first axis"
            return Stream(name, kind, axis, None, memory, said is not None, why)
        if tensor.dim() == (1 if kind == "ids" else 2):
            return Stream(name, kind, None, 0, memory, why="one sample without a batch axis")
        tokens = int(self.expect.get("sequence_axis", 0))
        if 1 < tokens < tensor.dim():  # (batch, features, length), as convolutions have it
            batch = int(self.expect.get("batch_axis", 0))
            why = f"declared: sequence_axis = {tokens}"
            return Stream(name, kind, batch, tokens, memory, certain=True, why=why)
        axis, why = self._batch_axis(name, tensor)
        return Stream(name, kind, axis, 1 - axis, memory, bool(why), why or "assumed: batch first")

    def _kind(self, name: str, tensor: Tensor) -> Kind | None:
        aside = [habits.is_mask, habits.is_positions, habits.is_label]
        if not tensor.is_floating_point():  # a segment of a recording is a sequence
            aside.append(habits.is_segments)
        named = any(is_it(name) for is_it in aside) and not (
            _is_padded(name, tensor) or self._is_decoded(name)
        )
        if tensor.dtype == torch.bool or named:
            return None
        stacked = tensor.dim() > 3 and habits.is_of_layers(name)
        if (
            stacked
            or habits.is_past(name)
            or name in {self.expect.get(k) for k in ("positions", "documents", "cache")}
        ):
            return None
        whole = not tensor.is_floating_point() and not tensor.is_complex()
        if whole:
            if habits.is_lengths(name) or habits.is_sizes(name) or not tensor.dim():
                return None
            if tensor.dim() > 2 or _is_binary(tensor):
                return "ids" if habits.is_ids(name) else None
            return "ids" if tensor.dim() == 2 or habits.is_ids(name) else None
        if tensor.dim() == 4:
            return "heads" if takes_qkv(self.run) else "image"
        if tensor.dim() == 3:
            return (
                "heads"
                if takes_qkv(self.run) and not isinstance(self.run, nn.Module)
                else "features"
            )
        if tensor.dim() == 2 and len(list(self.given.tensors())) <= 3 and not self._has_3d():
            return "features"
        return "image" if tensor.dim() > 4 else None

    def _is_decoded(self, name: str) -> bool:
        """Return whether a target, beside a source, is what is decoded rather than a label."""
        sources = (n for n, _ in self.given.tensors() if n.startswith(("source", "src")))
        return name.startswith("target") and next(sources, None) is not None

    def _counting(self, tensor: Tensor) -> str | None:
        """Return the input that says how many rows each sample has, all of them in one axis.

        Grids (samples, 3) whose products, or bounds from 0 on of which the last, is their number.
        """
        rows = len(tensor) if tensor.dim() else 0
        for name, other in self.given.tensors():
            if other.dtype in {torch.bool, tensor.dtype} or other.is_floating_point():
                continue
            grids = other.dim() == 2 and other.shape[1] in {2, 3} and len(other) < rows
            if grids and int(other.prod(1).sum()) == rows:
                return name
            bounds = other.dim() == 1 and 2 <= len(other) <= rows and int(other[0]) == 0
            if bounds and int(other[-1]) == rows and bool((other.diff() > 0).all()):
                return name
        return None

    def _table(self, name: str, *, memory: bool) -> Stream:
        """Return the stream of a float matrix: (batch, features) unless the code names tokens."""
        names = names_of_sizes(self.run, name)
        if names and names[0] in habits.LENGTH_NAMES and names[1].lower() not in habits.BATCH_NAMES:
            return Stream(
                name, "features", None, 0, memory, certain=True, why="named so in its forward"
            )
        tokens = 1 if len(names) == 2 and names[1] in habits.LENGTH_NAMES else None
        return Stream(name, "features" if tokens else "image", 0, tokens, memory)

    def _has_3d(self) -> bool:
        return any(t.dim() > 2 for _, t in self.given.tensors())

    def _batch_axis(self, name: str, tensor: Tensor) -> tuple[int, str]:
        """Return the batch axis, and what says so ("" where it is only assumed)."""
        for key, axis in (("batch_axis", 0), ("sequence_axis", 1)):
            if key in self.expect:
                number = int(self.expect[key])
                return (number if axis == 0 else 1 - number) % 2, f"declared: {key} = {number}"
        declared = _declared_by_torch(self.run)
        if declared is not None:
            return declared
        said = self._said_by_code(name)
        if said is not None:
            return said
        by_mask = self._by_mask(tensor)
        if by_mask is not None:
            return by_mask, "a mask (batch, length) has these sizes"
        if attribute(self.run, "config") is not None and name.endswith(("ids", "embeds", "states")):
            return 0, "Hugging Face puts the batch first"
        self.notes.append(
            f"the axes of {name} {tuple(tensor.shape)} are taken as (batch, length, …); "
            "where they aren't, declare expect batch_axis and sequence_axis"
        )
        return 0, ""

    def _said_by_code(self, name: str) -> tuple[int, str] | None:
        """Return the batch axis that the outermost forward gives an argument, and how."""
        in_code = batch_axis_in_code(self.run, name)
        if in_code is not None:
            return in_code, f"its forward unpacks the shape of {name} so"
        in_words = batch_axis_in_words(self.run, name)
        if in_words is not None:
            return in_words, f"its docstring or a comment gives the shape of {name} so"
        return None

    def _by_mask(self, tensor: Tensor) -> int | None:
        """Return the batch axis that a padding mask of the same sizes shows."""
        a, b = tensor.shape[:2]
        if a == b:
            return None
        for name, other in self.given.tensors():
            padded = "padding" in name or name in {"attention_mask", "lengths", "pad_mask"}
            if padded and other.dim() == 2 and tuple(other.shape) in {(a, b), (b, a)}:
                return 0 if tuple(other.shape) == (a, b) else 1
        return None

    # -- all other inputs ----------------------------------------------------------------------

    def _named(self, key: str, is_it: Any) -> str | None:
        """Return the input that is declared or named so; an argument that is only taken counts."""
        said = self.expect.get(key)
        if isinstance(said, str):
            return said
        given = self.given.values
        names = [n for n, v in given.items() if v is not None and is_it(n) and not _is_float(v)]
        taken = [p.name for p in self.given.parameters if is_it(p.name) and p.name not in given]
        return next(iter([*names, *taken]), None)

    def _axes(
        self, streams: tuple[Stream, ...], others: Mapping[str, Tensor]
    ) -> tuple[dict[str, int], dict[str, dict[int, str]]]:
        """Return the axes of samples and of tokens of every tensor."""
        batch_axes = {s.name: s.batch_axis for s in streams if s.batch_axis is not None}
        length_axes = {
            s.name: {s.sequence_axis: s.name} for s in streams if s.sequence_axis is not None
        }
        if not streams:
            return {}, {}
        batch = streams[0].batch(self.given)
        for name, tensor in others.items():
            along = self._lengths_in(tensor, streams, batch)
            if along:
                length_axes[name] = along
            free = [
                axis
                for axis, size in enumerate(tensor.shape)
                if size == batch and axis not in along
            ]
            first = streams[0].batch_axis or 0
            if tensor.dim() > 2 and free[:2] == [0, 1] and habits.is_of_layers(name):
                free.remove(0)  # as many layers as samples
            if free and tensor.dim() > 0 and (batch > 1 or tensor.dim() > 1):
                batch_axes[name] = first if first in free and tensor.dim() > 1 else free[0]
        for stream in streams:
            for same in self.given.same_as(stream.name):
                if stream.name in batch_axes:
                    batch_axes[same] = batch_axes[stream.name]
                if stream.name in length_axes:
                    length_axes[same] = length_axes[stream.name]
        return batch_axes, length_axes

    def _lengths_in(
        self, tensor: Tensor, streams: tuple[Stream, ...], batch: int
    ) -> dict[int, str]:
        """Return the axes whose size is that of a sequence, from the last one on."""
        found: dict[int, str] = {}
        sizes = {s.name: s.length(self.given) for s in streams if s.length(self.given) > 1}
        for axis in reversed(range(tensor.dim())):
            size = tensor.shape[axis]
            if axis == 0 and size == batch and tensor.dim() > 1 and found:
                continue
            if axis == 0 and tensor.dim() == 1 and size == batch:
                continue
            name = next((n for n, length in sizes.items() if length == size), None)
            if name is not None:
                found[axis] = name
        return found


def _is_padded(name: str, tensor: Tensor) -> bool:
    """Return whether "xs_pad" is a padded sequence rather than what says where padding is."""
    if not name.lower().endswith(("_pad", "_padded")):
        return False
    return tensor.dim() > 2 if tensor.is_floating_point() else not _is_binary(tensor)


def _is_binary(tensor: Tensor) -> bool:
    """Return whether all numbers are 0 or 1 and both occur, as in a mask."""
    return bool(tensor.numel()) and int(tensor.min()) == 0 and int(tensor.max()) == 1


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _is_torch_layer(run: Any) -> bool:
    return isinstance(run, nn.Module) and type(run).__module__.startswith("torch.")


def _declared_by_torch(run: Any) -> tuple[int, str] | None:
    """Return the batch axis of a layer of torch.nn that is checked itself."""
    layer = run
    if isinstance(run, nn.TransformerEncoder | nn.TransformerDecoder):
        layer = run.layers[0]
    if isinstance(layer, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        layer = layer.self_attn
    known = isinstance(layer, nn.MultiheadAttention | nn.Transformer)
    if not known or not _is_torch_layer(run):
        return None
    first = bool(attribute(layer, "batch_first"))
    return (0 if first else 1), f"{type(run).__name__} was made with batch_first={first}"
