"""Runs a module once more without leaving a mark: its parts start as they did, and stay as they are.

A part may change itself in a forward, as batch norm and spectral norm do in training. A run for the
sake of looking has to start from what there was before, and to put back what there is now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

__all__ = ["PartsBefore"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartsBefore:
    """Modes and buffers of a module and its parts, before a forward.

    training: the mode of each; buffers: copies of those in training, with the very tensors and
    their versions, by which `written` tells which ones the forward wrote to.
    """

    training: Mapping[str, bool]
    buffers: Mapping[str, tuple[Tensor, Tensor, int]]

    @classmethod
    def of(cls, module: nn.Module) -> PartsBefore:
        """Take note of a module that is about to run."""
        training, buffers = {}, {}
        for path, child in module.named_modules():
            training[path] = child.training
            if child.training:
                for name, buffer in child._buffers.items():  # noqa: SLF001  by owner
                    if buffer is not None:
                        copied = buffer.detach().clone()
                        buffers[f"{path}.{name}"] = (buffer, copied, _version(buffer))
        return cls(training, buffers)

    def written(self, module: nn.Module) -> PartsBefore:
        """Return it with those buffers alone that were written to since, or replaced."""
        if not self.buffers:
            return self
        now = {f"{path}.{name}": b for path, name, b in _buffers(module)}
        return PartsBefore(
            self.training,
            {
                name: (buffer, copied, version)
                for name, (buffer, copied, version) in self.buffers.items()
                if now.get(name) is not buffer
                or _version(buffer) != version
                or buffer.is_inference()
            },
        )

    @contextmanager
    def restored(self, module: nn.Module) -> Iterator[None]:
        """Have modes and buffers as they were, in copies; all parts are then as they are now."""
        parts = [(path, child, dict(vars(child))) for path, child in module.named_modules()]
        buffers = [(child._buffers, dict(child._buffers)) for _, child, _ in parts]  # noqa: SLF001
        copies: dict[int, Tensor] = {}  # one tensor under two names stays one
        try:
            for path, child, _ in parts:
                child.training = self.training.get(path, child.training)
                for name, buffer in child._buffers.items():  # noqa: SLF001
                    if buffer is None:
                        continue
                    if id(buffer) not in copies:
                        before = self.buffers.get(f"{path}.{name}")
                        source = buffer if before is None else before[1]
                        copies[id(buffer)] = source.detach().clone()
                    child._buffers[name] = copies[id(buffer)]  # noqa: SLF001
            yield
        finally:
            for owner, kept in buffers:
                owner.clear()
                owner.update(kept)
            for _, child, attributes in parts:
                vars(child).clear()
                vars(child).update(attributes)


def _buffers(module: nn.Module) -> Iterator[tuple[str, str, Tensor | None]]:
    for path, child in module.named_modules():
        for name, buffer in child._buffers.items():  # noqa: SLF001
            yield path, name, buffer


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # noqa: SLF001  no public way to ask
