"""Runs operations on tensors of element numbers, and compares layouts with what really happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from attnscope.capture.layout import (
    Atom,
    Layout,
    Unknown,
    follow,
    fresh,
)

FOREIGN = -1
Indices = NDArray[np.int64]


class Follower:
    """Runs operations on tensors and follows those it knows."""

    def __init__(self) -> None:
        self.drawn = 0
        self.layouts: dict[int, Layout] = {}
        self.alive: list[Tensor] = []

    def origin(self, *shape: int) -> Tensor:
        tensor = torch.arange(int(np.prod(shape))).reshape(shape)
        return self.know(tensor, fresh(shape, self.next_origin()))

    def next_origin(self) -> int:
        self.drawn += 1
        return self.drawn - 1

    def know(self, tensor: Tensor, layout: Layout) -> Tensor:
        self.alive.append(tensor)
        self.layouts[id(tensor)] = layout
        return tensor

    def of(self, tensor: Tensor) -> Layout:
        return self.layouts[id(tensor)]

    def seen(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            unknown = Unknown(tuple(value.shape), value.dtype == torch.bool)
            return self.layouts.get(id(value), unknown)
        if isinstance(value, list | tuple):
            return type(value)(self.seen(each) for each in value)
        return value

    def call(self, name: str, *args: Any, pick: int | None = None, **kwargs: Any) -> Tensor:
        """Run one operation, by the name that ``follow`` knows; its output must be followed."""
        out = run(name, args, kwargs)
        out = out if pick is None else out[pick]
        layout = self.follow(name, args, kwargs, out, pick)
        assert layout is not None, f"{name} was not followed"
        return self.know(out, layout)

    def follow(
        self, name: str, args: Any, kwargs: Any, out: Tensor, pick: int | None
    ) -> Layout | None:
        return follow(
            name,
            self.seen(tuple(args)),
            {key: self.seen(value) for key, value in kwargs.items()},
            tuple(out.shape),
            new_origin=self.next_origin,
            output_index=pick or 0,
        )


def run(name: str, args: Any, kwargs: Any) -> Any:
    special: dict[str, Callable[..., Any]] = {
        "getitem": lambda x, index: x[index],
        "T": lambda x: x.T,
        "mT": lambda x: x.mT,
        "H": lambda x: x.H,
        "mH": lambda x: x.mH,
        "rmatmul": lambda a, b: b @ a,
        "pad": F.pad,
        "linear": F.linear,
        "embedding": F.embedding,
    }
    if name in special:
        return special[name](*args, **kwargs)
    if args and isinstance(args[0], Tensor) and hasattr(args[0], name):
        return getattr(args[0], name)(*args[1:], **kwargs)
    return getattr(torch, name)(*args, **kwargs)


def placed(atom: Atom) -> Indices:
    """Position along the origin axis that each position of an atom adds."""
    return atom.offset + (np.arange(atom.size) - atom.before) * atom.stride


def check(layout: Layout, tensor: Tensor, shape: tuple[int, ...], *, exact: bool) -> None:
    """Compare a layout with a tensor of element numbers of origin 0, which has ``shape``.

    What remains of the real position after subtracting the predicted one may vary along opaque
    atoms only; where nothing opaque was ever met (``exact``), it is zero.
    """
    assert layout.shape == tuple(tensor.shape)
    atoms = layout.atoms
    sizes = [atom.size for atom in atoms]
    values = tensor.numpy().reshape(sizes)
    valid = values != FOREIGN
    for i, atom in enumerate(atoms):
        place = np.arange(atom.size)
        inside = (place >= atom.before) & (place < atom.size - atom.after)
        valid = valid & inside.reshape([-1 if j == i else 1 for j in range(len(atoms))])
    real = np.unravel_index(np.where(valid, values, 0), shape)
    for axis, positions in enumerate(real):
        own = [i for i, atom in enumerate(atoms) if (atom.origin, atom.axis) == (0, axis)]
        rest = positions.astype(np.int64)
        for i in own:
            rest = rest - placed(atoms[i]).reshape([-1 if j == i else 1 for j in range(len(atoms))])
        clear = tuple(i for i, atom in enumerate(atoms) if not atom.opaque)
        low = np.where(valid, rest, np.iinfo(np.int64).max).min(axis=clear, initial=2**60)
        high = np.where(valid, rest, np.iinfo(np.int64).min).max(axis=clear, initial=-(2**60))
        assert (low >= high).all(), (layout, axis)
        if exact and own:
            assert (rest[valid] == 0).all(), (layout, axis)
