"""The gradient that reached a call's context, recorded by a hook on that one tensor."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from attnscope.capture.ownwork import OwnWork
from attnscope.errors import ReplayError

_BATCHED = (
    "a backward with batched gradients (vmap, is_grads_batched)",
    "run the backward for one gradient at a time inside `attnscope.record`",
)


def is_batched(tensor: Tensor) -> bool:
    """Return whether `vmap` has put a hidden batch axis into `tensor`."""
    functorch = torch._C._functorch  # noqa: SLF001  no public way to ask
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


class Cotangent:
    """Waits for the gradient of one tensor. Nothing is added to it; the hook returns None."""

    __slots__ = ("__weakref__", "_device", "_gradient", "_handle", "_lost")

    def __init__(self, tensor: Tensor) -> None:
        """Hook `tensor` where autograd follows it."""
        self._gradient: Tensor | None = None
        self._device: torch.device | None = None
        self._handle: RemovableHandle | None = None
        self._lost: tuple[str, str] | None = None  # why it is not known, and what to do
        if tensor.requires_grad and not tensor.is_meta:
            self._handle = tensor.register_hook(self._receive)

    def _receive(self, gradient: Tensor | None) -> None:
        if gradient is None:  # autograd's word for zero
            return
        with OwnWork(self._fail):
            if is_batched(gradient):
                self._lost = _BATCHED
                return
            gradient = gradient.detach().to(self._device or gradient.device)
            self._gradient = gradient if self._gradient is None else self._gradient + gradient

    def send_to(self, device: torch.device) -> None:
        """Keep the gradient, which has yet to arrive, on `device`."""
        self._device = device

    def _fail(self, error: Exception) -> None:
        self._lost = f"it could not be kept: {error!r}", "record without device=, and report this"

    def tensor(self) -> Tensor:
        """Return the gradient, summed over all backwards so far."""
        if self._lost is not None:
            raise ReplayError("reading a gradient", *self._lost)
        if self._gradient is None:
            raise ReplayError(
                doing="reading a gradient",
                found="no backward reached this call",
                todo="run loss.backward() inside `with attnscope.record(model)`, with gradients on",
            )
        return self._gradient

    def release(self) -> None:
        """Remove the hook; a gradient that has arrived stays."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
