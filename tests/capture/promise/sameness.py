"""Bit for bit: what is compared about a tensor, an output, an exception."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


class Same:
    """Equal to itself alone: compares the object behind it by identity."""

    __slots__ = ("thing",)

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __repr__(self) -> str:
        return f"Same({type(self.thing).__qualname__} at {id(self.thing):#x})"


@dataclass(frozen=True, slots=True)
class Bits:
    """All that can be asked about a tensor without running on it, and its memory byte by byte."""

    kind: str
    shape: tuple[Any, ...]
    stride: tuple[Any, ...] | None
    offset: int | None
    dtype: torch.dtype
    device: str
    layout: torch.layout
    requires_grad: bool
    is_leaf: bool
    made_by: str | None
    inference: bool
    values: bytes | tuple[Any, ...] | None = field(repr=False)
    checksum: int  # of the values, for messages

    @classmethod
    def of(cls, tensor: Tensor) -> Bits:
        with torch._C.DisableTorchFunction():
            strided = tensor.layout == torch.strided and not tensor.is_nested
            wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
            values = None if wrapped else _values(tensor)
            return cls(
                kind=type(tensor).__qualname__,
                shape=() if tensor.is_nested else tuple(tensor.shape),
                stride=tensor.stride() if strided else None,
                offset=tensor.storage_offset() if strided and not wrapped else None,  # type: ignore[arg-type]
                dtype=tensor.dtype,
                device=str(tensor.device),
                layout=tensor.layout,
                requires_grad=tensor.requires_grad,
                is_leaf=tensor.is_leaf,
                made_by=None if tensor.grad_fn is None else type(tensor.grad_fn).__name__,
                inference=tensor.is_inference(),
                values=values,
                checksum=hash(values),
            )


def _values(tensor: Tensor) -> bytes | tuple[Any, ...] | None:
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        return None
    plain = tensor.detach()
    if plain.is_nested:
        return tuple(Bits.of(one) for one in plain.unbind())
    if plain.layout != torch.strided:
        return _values(plain.to_dense())
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return bytes(plain.contiguous().reshape(-1).view(torch.uint8).numpy().data)


def frozen(tree: Any) -> Any:
    """Turn any result of a model into something that compares bit for bit."""
    if isinstance(tree, Tensor):
        return Bits.of(tree)
    if isinstance(tree, Mapping):
        return type(tree).__qualname__, {key: frozen(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree).__qualname__, [frozen(item) for item in tree]
    if isinstance(tree, BaseException):
        return _exception(tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = {one.name: getattr(tree, one.name) for one in dataclasses.fields(tree)}
        return type(tree).__qualname__, frozen(fields)
    return tree


def _exception(error: BaseException) -> Any:
    """Type, text, arguments and what it came from; and where in the code it was raised."""
    return (
        type(error),
        str(error),
        [str(one) for one in error.args],
        None if error.__cause__ is None else _exception(error.__cause__),
        None if error.__context__ is None else _exception(error.__context__),
        error.__suppress_context__,
        getattr(error, "__notes__", None),
        _lines(error),
    )


def _lines(error: BaseException) -> list[tuple[str, int]]:
    """Return the lines of the traceback that are the model's own."""
    lines = []
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "/torch/" not in name and "/attnscope/" not in name and "/promise/runs" not in name:
            lines.append((name, trace.tb_lineno))
        trace = trace.tb_next
    return lines
