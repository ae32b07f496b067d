"""The same hidden states in another layout: sequence first, or batch and length in one axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Layout", "layouts"]

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the candidate's tensor becomes like the reference's, and back."""

    name: str
    read: Callable[[Tensor], Tensor]
    write: Callable[[Tensor], Tensor]


def layouts(own: Shape, wanted: Shape, batch: int) -> Iterator[Layout]:
    """Iterate over the layouts that make a tensor of shape `own` one of shape `wanted`.

    Both hold the same features of `batch` samples; batch and length may be swapped, or one axis.
    """
    forms = _forms(own, batch), _forms(wanted, batch)
    if own == wanted and not forms[0]:
        yield Layout("as it is", _same, _same)
    if not own or own[-1:] != wanted[-1:] or _count(own) != _count(wanted):
        return
    for ours in forms[0]:
        for theirs in forms[1]:
            yield _between(own, wanted, ours, theirs, batch)


def _forms(shape: Shape, batch: int) -> list[str]:
    """Return in which order batch and length can stand in a shape."""
    lead = shape[:-1]
    tokens = _count(lead)
    if not lead or not batch or tokens % batch:
        return []
    length = tokens // batch
    forms = []
    if lead in {(batch, length), (tokens,)}:
        forms.append("batch first")
    if lead in {(length, batch), (tokens,)}:
        forms.append("length first")
    return forms


def _between(own: Shape, wanted: Shape, ours: str, theirs: str, batch: int) -> Layout:
    length = _count(own[:-1]) // batch
    order = {"batch first": (batch, length), "length first": (length, batch)}

    def turn(tensor: Tensor, form: str, other: str, shape: Shape) -> Tensor:
        whole = tensor.reshape(*order[form], -1)
        return (whole if form == other else whole.transpose(0, 1)).reshape(shape)

    return Layout(
        f"{ours} against {theirs}",
        lambda tensor: turn(tensor, ours, theirs, wanted),
        lambda tensor: turn(tensor, theirs, ours, own),
    )


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _count(shape: Shape) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
