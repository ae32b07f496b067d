"""Runs a module once more without leaving a mark: its parts start as then, and stay as now.

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

    training: the mode of each; buffers: copies of those in training. Which ones the forward then
    writes to can't be told: batch norm does it without counting a version.
    """

    training: Mapping[str, bool]
    buffers: Mapping[str, Tensor]

    @classmethod
    def of(cls, module: nn.Module) -> PartsBefore:
        """Take note of a module that is about to run."""
        training: dict[str, bool] = {}
        buffers: dict[str, Tensor] = {}
        for path, child in module.named_modules():
            training[path] = child.training
            if child.training:
                for name, buffer in child._buffers.items():  # noqa: SLF001  by owner
                    if buffer is not None:
                        buffers[f"{path}.{name}"] = buffer.detach().clone()
        return cls(training, buffers)

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
                        before = self.buffers.get(f"{path}.{name}", buffer)
                        copies[id(buffer)] = before.detach().clone()
                    child._buffers[name] = copies[id(buffer)]  # noqa: SLF001
            yield
        finally:
            for owner, kept in buffers:
                owner.clear()
                owner.update(kept)
            for _, child, attributes in parts:
                vars(child).clear()
                vars(child).update(attributes)
