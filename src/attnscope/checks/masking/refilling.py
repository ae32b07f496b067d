"""Other contents for some tokens of a sequence, put in on the tape of the base run."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import spread

__all__ = ["refilled"]

_LAYOUT = frozenset("view reshape flatten to long int clone contiguous detach unsqueeze".split())
_TABLES = frozenset("embedding getitem index_select".split())


def refilled(subject: Subject, stream: Stream, where: Tensor) -> dict[int, Tensor]:
    """Return other tensors for what a sequence holds at some positions, as values of the tape.

    where: boolean, (batch, length). Token ids stay as they are: what tables give for them changes.
    """
    value = subject.input_value(stream.name)
    if value is None:
        return {}
    generator = torch.Generator().manual_seed(subject.seed + 7)
    tape = subject.base.tape
    if stream.kind != "ids":
        return {value: _fresh(tape.tensors[value].detach(), where, stream, generator)}
    looked_up = list(_looked_up(subject, value))
    return {
        each: _fresh(tape.tensors[each].detach(), where, stream, generator) for each in looked_up
    }


def _looked_up(subject: Subject, ids: int) -> Iterator[int]:
    """Iterate over what tables give for the ids of a sequence."""
    tape = subject.base.tape
    waiting, seen = [ids], {ids}
    shape = tuple(tape.tensors[ids].shape)
    while waiting:
        for operation in tape.users.get(waiting.pop(), []):
            made = operation.defines[0]
            if operation.name in _TABLES and any(
                v in subject.base.weights for v in operation.values()
            ):
                if tuple(operation.shapes[0][: len(shape)]) == shape:
                    yield made
            elif operation.name in _LAYOUT and operation.shapes[0] == shape and made not in seen:
                seen.add(made)
                waiting.append(made)


def _fresh(tensor: Tensor, where: Tensor, stream: Stream, generator: torch.Generator) -> Tensor:
    """Return a tensor with random numbers of the same mean and spread at padded positions."""
    wide = tensor.double()
    spread_of = float(wide.std()) if wide.numel() > 1 else 1.0
    made = torch.randn(wide.shape, generator=generator, dtype=torch.float64)
    made = made * (spread_of or 1.0) + float(wide.mean())
    return torch.where(spread(where, stream, wide), made, wide)
