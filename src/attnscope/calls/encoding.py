"""Frozen dataclasses as JSON and back, by their own type annotations.

The rules, all of them:

================  =====================================================================
tuple, frozenset  a list (of a set: sorted)
dataclass         an object with one member a field
float             a number; ``"nan"``, ``"inf"`` and ``"-inf"`` where JSON has none
tensor            an object, see `attnscope.calls.blobs.StoredTensor`
================  =====================================================================

Everything else is its JSON self. What is read is checked against the annotations: a member that is
missing, unknown or of another type raises ValueError with its path.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from torch import Tensor

__all__ = ["decode", "encode"]

T = TypeVar("T")
Encoder = Callable[[Tensor], Any]
Decoder = Callable[[Any], Tensor]

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(value: Any, tensor: Encoder | None = None) -> Any:
    """Return `value` as plain data that JSON can carry; `tensor` says what becomes of tensors."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Tensor):
        if tensor is None:
            raise TypeError("a tensor where none can be stored")
        return tensor(value)
    if isinstance(value, (tuple, list)):
        return [encode(item, tensor) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(encode(item, tensor) for item in value)
    if isinstance(value, Mapping):
        return {str(key): encode(item, tensor) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: encode(getattr(value, name), tensor) for name in names}
    raise TypeError(f"a {type(value).__name__} can't be stored")


def decode(kind: type[T], data: Any, tensor: Decoder | None = None) -> T:
    """Return the `kind` that `data` describes.

    Raises:
        ValueError: `data` is not what `encode` makes of a `kind`.
    """
    value: T = _decode(kind, data, tensor, kind.__name__)
    return value


def _decode(kind: Any, data: Any, tensor: Decoder | None, path: str) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return data
    if origin in {typing.Union, types.UnionType}:
        return _decode_union(inner, data, tensor, path)
    if origin is typing.Literal:
        if data in inner:
            return data
        raise ValueError(f"{path} is {data!r}, not one of {inner}")
    if origin in {tuple, frozenset}:
        return _decode_items(origin, inner, data, tensor, path)
    if origin is dict:
        _expect(isinstance(data, dict), path, "an object", data)
        return {key: _decode(inner[1], item, tensor, f"{path}.{key}") for key, item in data.items()}
    if kind is Tensor:
        _expect(tensor is not None and isinstance(data, dict), path, "a tensor", data)
        return typing.cast("Decoder", tensor)(data)
    if dataclasses.is_dataclass(kind):
        return _decode_fields(typing.cast("type", kind), data, tensor, path)
    return _decode_plain(kind, data, path)


def _decode_plain(kind: Any, data: Any, path: str) -> Any:
    if kind is float:
        if isinstance(data, str) and data in _NOT_FINITE:
            return _NOT_FINITE[data]
        _expect(
            isinstance(data, (int, float)) and not isinstance(data, bool), path, "a number", data
        )
        return float(data)
    _expect(type(data) is kind, path, f"a value of type {kind.__name__}", data)
    return data


def _decode_union(inner: tuple[Any, ...], data: Any, tensor: Decoder | None, path: str) -> Any:
    """Try the members in order; the first that fits is it."""
    if data is None and type(None) in inner:
        return None
    reasons = []
    for member in inner:
        if member is type(None):
            continue
        try:
            return _decode(member, data, tensor, path)
        except ValueError as error:
            reasons.append(str(error))
    raise ValueError(" and ".join(reasons) or f"{path} is {data!r}")


def _decode_items(
    origin: Any, inner: tuple[Any, ...], data: Any, tensor: Decoder | None, path: str
) -> Any:
    _expect(isinstance(data, list), path, "a list", data)
    if origin is tuple and inner[-1] is not Ellipsis:
        _expect(len(data) == len(inner), path, f"a list of {len(inner)}", data)
        kinds = inner
    else:
        kinds = (inner[0],) * len(data)
    places = enumerate(zip(kinds, data, strict=True))
    return origin(_decode(kind, item, tensor, f"{path}[{at}]") for at, (kind, item) in places)


def _decode_fields(kind: type, data: Any, tensor: Decoder | None, path: str) -> Any:
    _expect(isinstance(data, dict), path, "an object", data)
    hints, required = _fields_of(kind)
    strange = [*(required - data.keys()), *(data.keys() - hints.keys())]
    _expect(
        not strange, path, f"a {kind.__name__} without {', '.join(sorted(strange))} amiss", data
    )
    return kind(
        **{
            name: _decode(hints[name], item, tensor, f"{path}.{name}")
            for name, item in data.items()
        }
    )


@lru_cache
def _fields_of(kind: type) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the annotations of a dataclass's fields, and which of them have no default."""
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    required = (f.name for f in fields if f.default is missing and f.default_factory is missing)
    return {field.name: hints[field.name] for field in fields}, frozenset(required)


def _expect(holds: bool, path: str, wanted: str, data: Any) -> None:  # noqa: FBT001  the condition
    if not holds:
        text = repr(data)
        raise ValueError(f"{path} should be {wanted}, it is {text[:60]}{'…' * (len(text) > 60)}")
