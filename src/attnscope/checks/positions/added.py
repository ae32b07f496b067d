"""Tables that are added to what attention receives: positions, and along which axes they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.operations import ADDS
from attnscope.checks.positions.constants import varies
from attnscope.checks.residual.graph import behind, contents, free_values
from attnscope.checks.subject.subject import Subject

__all__ = ["Added", "added"]


@dataclass(frozen=True, slots=True, eq=False)
class Added:
    """An addition of something that depends on no input to something that depends on the tokens.

    value: of the table on the tape; table: as it is broadcast; axes: along which it differs, the
    features left out; samples, tokens: axes of the result, as attention reads them; None: not told.
    """

    operation: Operation
    value: int
    table: Tensor
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    samples: int | None
    tokens: int | None

    @property
    def rows(self) -> Tensor | None:
        """The table as (length, features), where it differs along one axis alone."""
        if len(self.axes) != 1 or self.axes[0] == len(self.shape) - 1:
            return None
        full = self.table.expand(self.shape).movedim(self.axes[0], 0)
        flat = full.flatten(1, -2)[:, 0] if full.dim() > 2 else full
        return flat.detach()


def added(subject: Subject) -> list[Added]:
    """Return the additions in front of the attention calls."""
    return subject.once("added", lambda: list(_find(subject)))


def _find(subject: Subject) -> Iterator[Added]:
    tape = subject.base.tape
    received = [v for each in subject.base.located for v in each.received.values()]
    if not received:
        return
    moving, free = contents(subject), free_values(subject)
    widths = {tape.tensors[v].shape[-1] for v in received}
    for operation in behind(tape, received):
        operands = list(dict.fromkeys(operation.values()))
        if operation.name not in ADDS or len(operands) != 2 or not operation.shapes:
            continue
        shape = operation.shapes[0]
        for table, tokens in (operands, operands[::-1]):
            tensor = tape.tensors[table]
            if table not in free or tokens not in moving or not tensor.is_floating_point():
                continue
            if len(shape) < 2 or shape[-1] not in widths or tensor.dim() > len(shape):
                continue
            offset = len(shape) - tensor.dim()
            axes = tuple(axis + offset for axis in range(tensor.dim() - 1) if varies(tensor, axis))
            yield Added(operation, table, tensor, shape, axes, *_axes(subject, shape))


def _axes(subject: Subject, shape: tuple[int, ...]) -> tuple[int | None, int | None]:
    """Return the axes of samples and tokens of (…, …, width), by the sizes that attention has."""
    call = subject.base.located[0].call
    if len(shape) == 2:
        return None, 0
    if len(shape) != 3:
        return None, None
    batch = call.batch
    fits = [axis for axis in (0, 1) if shape[axis] == batch]
    if len(fits) == 1 and call.keys > 1:
        return fits[0], 1 - fits[0]
    main = subject.roles.main
    if len(fits) == 2 and main is not None and main.certain and main.batch_axis in {0, 1}:
        return main.batch_axis, 1 - main.batch_axis
    return None, None
