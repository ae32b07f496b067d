"""What a model returned, as plain data and tensors: nests of tuples, lists and dicts.

Each node is an object with one member: ``tensor``, ``value`` (a number, a string, null, true,
false), ``tuple``, ``list`` or ``dict`` (pairs). Nothing else is stored, so nothing can run code.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from attnscope.calls.blobs import TensorReader, TensorWriter, why_not
from attnscope.calls.encoding import decode, encode

__all__ = ["pack_output", "unpack_output"]


def pack_output(output: Any, writer: TensorWriter, note: Callable[[str], None]) -> Any:
    """Return `output` as plain data; `note` is told what is not stored or changes its type."""
    return _pack(output, "the model's output", writer, note)


def _pack(item: Any, path: str, writer: TensorWriter, note: Callable[[str], None]) -> Any:
    if isinstance(item, Tensor):
        reason = why_not(item)
        if reason is None:
            return {"tensor": writer.encode(item)}
        note(f"{path} is not stored: {reason}")
        return {"value": None}
    if item is None or isinstance(item, (bool, int, float, str)):
        return {"value": encode(item)} if not isinstance(item, float) else {"float": encode(item)}
    if isinstance(item, Mapping) and all(isinstance(key, (str, int)) for key in item):
        _note_type(item, dict, path, note)
        pairs = [
            [key, _pack(value, f"{path}[{key!r}]", writer, note)] for key, value in item.items()
        ]
        return {"dict": pairs}
    for kind in (tuple, list):
        if isinstance(item, kind):
            _note_type(item, kind, path, note)
            items = enumerate(typing.cast("tuple[Any, ...]", item))
            return {kind.__name__: [_pack(x, f"{path}[{at}]", writer, note) for at, x in items]}
    note(f"{path} is not stored: a {type(item).__name__} is no tensor, number, tuple, list or dict")
    return {"value": None}


def _note_type(item: Any, plain: type, path: str, note: Callable[[str], None]) -> None:
    if type(item) is not plain:
        note(f"{path} is stored as a {plain.__name__}; it was a {type(item).__name__}")


def unpack_output(data: Any, reader: TensorReader) -> Any:
    """Return what `pack_output` was given.

    Raises:
        ValueError: `data` is not what it returns.
    """
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError(f"an output is {str(data)[:60]!r}, not an object with one member")
    ((kind, inner),) = data.items()
    match kind:
        case "tensor":
            return reader.decode(inner)
        case "value":
            return inner
        case "float":
            return decode(float, inner)
        case "dict":
            return {key: unpack_output(value, reader) for key, value in inner}
        case "tuple":
            return tuple(unpack_output(item, reader) for item in inner)
        case "list":
            return [unpack_output(item, reader) for item in inner]
    raise ValueError(f"an output of kind {kind!r}")
