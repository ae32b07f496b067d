"""Tensors on disk by content: equal tensors are stored once, and read when they are asked for.

A tensor's id is the SHA-256 of its type, shape and bytes, so that a mask that all layers share, or
the keys of a cache, take space once, and so that a damaged file is noticed when it is read.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from attnscope.calls.encoding import decode, encode
from attnscope.calls.held import has_values
from attnscope.errors import StoreError

__all__ = ["StoredTensor", "TensorReader", "TensorWriter", "why_not"]

SHARD_BYTES = 1 << 28
"""Size after which a file of tensors is closed and the next one begun: 256 MiB."""

_DIGITS = 32

TYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.bool),
        *(torch.uint64, torch.uint32, torch.uint16, torch.uint8),
        *(torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz),
        torch.float8_e8m0fnu,
    )
}
"""The types that a safetensors file can hold, by name."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor is. An axis that held one value many times is stored with size 1.

    id: SHA-256 of what is stored, 32 digits; None: the values were not kept, only the shape was.
    dtype: name of the type; shape: the whole shape, to which what is stored is expanded.
    """

    id: str | None
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Blob:
    """One stored tensor: the file that holds it, and its shape there."""

    file: str
    shape: tuple[int, ...]


def why_not(tensor: Tensor) -> str | None:
    """Return why the values of `tensor` can't be stored, None where they can."""
    if not has_values(tensor):
        return "the model ran without values (meta or fake tensors), so there are shapes only"
    if tensor.layout != torch.strided or tensor.is_nested:
        return f"a tensor of layout {'nested' if tensor.is_nested else tensor.layout}"
    if TYPES.get(_name(tensor.dtype)) is None:
        return f"a tensor of type {_name(tensor.dtype)}, which safetensors files can't hold"
    return None


class TensorWriter:
    """Writes tensors into the safetensors files of one folder."""

    def __init__(self, folder: Path) -> None:
        """Write into `folder`, which exists and is empty."""
        self.folder = folder
        self.blobs: dict[str, Blob] = {}
        self.files: dict[str, int] = {}
        self._waiting: dict[str, Tensor] = {}
        self._bytes = 0

    def add(self, tensor: Tensor) -> StoredTensor:
        """Store `tensor`, or only its shape where it has no values that a file can hold."""
        name, shape = _name(tensor.dtype), tuple(tensor.shape)
        if why_not(tensor) is not None:
            return StoredTensor(None, name, shape)
        small = _without_copies(tensor.detach())
        plain = small.to("cpu").resolve_conj().resolve_neg().contiguous()
        identity = content_id(plain)
        if identity not in self.blobs:
            if self._bytes and self._bytes + plain.nbytes > SHARD_BYTES:
                self.flush()
            self.blobs[identity] = Blob(
                f"tensors-{len(self.files):05d}.safetensors", (*plain.shape,)
            )
            self._waiting[identity] = plain
            self._bytes += plain.nbytes
        return StoredTensor(identity, name, shape)

    def encode(self, tensor: Tensor) -> Any:
        """Store `tensor` and return where it is, as plain data."""
        return encode(self.add(tensor))

    def flush(self) -> None:
        """Write the file of the tensors that wait, and see it onto the disk."""
        if not self._waiting:
            return
        file = f"tensors-{len(self.files):05d}.safetensors"
        path = self.folder / file
        save_file(_with_own_memory(self._waiting), path)
        with path.open("rb") as written:
            os.fsync(written.fileno())
        self.files[file] = path.stat().st_size
        self._waiting.clear()
        self._bytes = 0


@dataclass(eq=False)
class TensorReader:
    """Reads tensors of one folder, each when it is asked for, and checks what it reads."""

    folder: Path
    files: dict[str, int]
    blobs: dict[str, Blob]
    _shared: weakref.WeakValueDictionary[str, Tensor] = field(
        default_factory=weakref.WeakValueDictionary, init=False, repr=False
    )

    def check(self) -> None:
        """Raise StoreError where a file is missing, has another size or lacks a tensor."""
        for name in self.files:
            wanted = {
                key: list(blob.shape) for key, blob in self.blobs.items() if blob.file == name
            }
            with self._open(name) as file:
                held = set(file.keys())
                for key, shape in wanted.items():
                    if key not in held or file.get_slice(key).get_shape() != shape:
                        raise self._damaged(name, f"tensor {key} with shape {shape} is not in it")

    def read(self, stored: StoredTensor) -> Tensor:
        """Return the tensor; without values it is on the meta device."""
        if stored.id is None:
            return torch.empty(stored.shape, dtype=TYPES.get(stored.dtype), device="meta")
        blob = self.blobs.get(stored.id)
        if blob is None:
            raise self._damaged("manifest.json", f"it names no file for tensor {stored.id}")
        with self._open(blob.file) as file:
            try:
                tensor: Tensor = file.get_tensor(stored.id)
            except SafetensorError as error:
                raise self._damaged(blob.file, str(error)) from error
        if content_id(tensor) != stored.id:
            raise self._damaged(blob.file, f"the checksum of tensor {stored.id} does not match")
        return tensor if tuple(tensor.shape) == stored.shape else tensor.expand(stored.shape)

    def decode(self, data: Any) -> Tensor:
        """Return the tensor that plain data names; equal ones that are in use are one tensor."""
        stored = decode(StoredTensor, data)
        if stored.id is None:
            return self.read(stored)
        key = f"{stored.id}{stored.shape}"
        tensor = self._shared.get(key)
        if tensor is None:
            tensor = self._shared[key] = self.read(stored)
        return tensor

    def _open(self, name: str) -> Any:
        path, size = self.folder / name, self.files.get(name)
        if size is None or Path(name).name != name:
            raise self._damaged(name, "the manifest does not list it")
        try:
            found = path.stat().st_size
            if found != size:
                raise self._damaged(name, f"it has {found} bytes instead of {size}")
            return safe_open(path, framework="pt", device="cpu")
        except OSError as error:
            raise self._damaged(name, error.strerror or str(error)) from error
        except SafetensorError as error:
            raise self._damaged(name, str(error)) from error

    def _damaged(self, name: str, found: str) -> StoreError:
        return StoreError(
            f"reading the trace {self.folder}",
            f"{name} is damaged: {found}",
            "copy the folder again from where it came, or trace the model and save again",
        )


def content_id(tensor: Tensor) -> str:
    """Return the first 32 digits of SHA-256 over type, shape and bytes of a contiguous tensor."""
    digest = hashlib.sha256(f"{_name(tensor.dtype)}{tuple(tensor.shape)}".encode())
    if tensor.numel():
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:_DIGITS]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _without_copies(tensor: Tensor) -> Tensor:
    """Return `tensor` with size 1 along every axis that repeats the same memory."""
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size > 1 and stride == 0:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def _with_own_memory(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return `tensors`, copied where two share memory or one holds a part of some."""
    seen: set[int] = set()
    own = {}
    for key, tensor in tensors.items():
        storage = tensor.untyped_storage()
        alone = storage.nbytes() == tensor.nbytes and storage.data_ptr() not in seen
        seen.add(storage.data_ptr())
        own[key] = tensor if alone else tensor.clone()
    return own
