"""Tensors that a trace keeps: by reference, and safe against later changes in place."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor

from attnscope.errors import ReplayError


class Held:
    """One tensor kept by reference; a copy is taken only when somebody is about to change it.

    The recorder calls `freeze` before an in-place operation that it sees. A change that it could
    not see (after the recording, or from outside PyTorch) is noticed by the tensor's version
    counter.
    """

    __slots__ = ("__weakref__", "_born", "_identity", "_tensor", "_version", "required")

    def __init__(self, tensor: Tensor) -> None:
        """Keep the memory of `tensor`, not its autograd graph."""
        self._identity = weakref.ref(tensor)
        self.required = tensor.requires_grad  # whether autograd followed it
        self._tensor = tensor.detach()
        self._born = self._version = version(tensor)

    @property
    def origin(self) -> tuple[Tensor | None, int]:
        """The very tensor, where it still lives, and its version when it was recorded."""
        return self._identity(), self._born

    @property
    def tensor(self) -> Tensor:
        """The tensor as it was when it was recorded, detached from autograd."""
        if version(self._tensor) != self._version:
            raise ReplayError(
                doing="reading a recorded tensor",
                found=f"a tensor {tuple(self._tensor.shape)} that was changed in place, out of "
                "attnscope's sight or after the recording ended",
                todo="read the values, or trace.save(path), before the model runs on",
            )
        return self._tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return tuple(self._tensor.shape)

    @property
    def raw(self) -> Tensor:
        """The tensor, unchecked."""
        return self._tensor

    def is_of(self, tensor: Tensor) -> bool:
        """Return whether this keeps `tensor`, unchanged since."""
        return self._identity() is tensor and version(tensor) == self._version

    def freeze(self) -> None:
        """Take a copy with the same strides, since the original is about to change."""
        source = self._tensor
        copy = source.clone()
        if copy.stride() != source.stride() and source.layout == torch.strided:
            copy = _strided_copy(source)
        self._tensor = copy
        self._version = version(copy)

    def replace(self, tensor: Tensor) -> None:
        """Keep `tensor`, of equal values, instead: a copy in another place such as the CPU."""
        self._tensor = tensor
        self._version = version(tensor)


def version(tensor: Tensor) -> int:
    """Return the count of in-place changes; 0 where PyTorch keeps none (inference mode)."""
    try:  # asked for at every operation: `contextlib.suppress` costs more than the question
        return int(tensor._version)  # noqa: SLF001  the documented way to ask for it
    except RuntimeError:
        return 0


def has_values(tensor: Tensor) -> bool:
    """Return whether there are numbers behind `tensor`: not for meta, fake and mapped tensors."""
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # noqa: SLF001


def storage_key(tensor: Tensor) -> int:
    """Return the address of the memory behind `tensor`; 0 where it has none of its own.

    An address, not the storage's identity: NumPy may hand the same memory back as another storage.
    """
    if not has_values(tensor):
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def _strided_copy(source: Tensor) -> Tensor:
    """Copy `source` into fresh memory under the same strides (kernels may depend on them)."""
    extent = 1 + sum((n - 1) * s for n, s in zip(source.shape, source.stride(), strict=True))
    memory = source.as_strided((extent,), (1,), source.storage_offset()).clone()
    return memory.as_strided(source.shape, source.stride())
