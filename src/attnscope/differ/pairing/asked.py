"""What is asked of the pairing: two models' tensors, their names, and what the user wants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from attnscope.differ.pairing.given import Given, read_map
from attnscope.differ.pairing.names import Names
from attnscope.differ.pairing.packing import Packing
from attnscope.differ.pairing.tensors import Weight, parametrized, weights_of
from attnscope.differ.pairing.values import ValueIndex, narrow
from attnscope.errors import InputError


class Asked:
    """The tensors of two models, and all that is known of them before any is paired.

    Args:
        candidate: the model under test.
        reference: the model it is compared with.
        wish: "auto", "keep", "copy", a map or where it is written.
        packings: of fused projections, by name.
        idle: parameters of either side that take no part in its output.

    Raises:
        InputError: the wish can't be read.
    """

    def __init__(
        self,
        candidate: nn.Module,
        reference: nn.Module,
        wish: str | Path | Mapping[str, Any],
        packings: Mapping[str, Packing],
        idle: tuple[Collection[str], Collection[str]] = ((), ()),
    ) -> None:
        alike = parametrized(candidate) == parametrized(reference)
        self.mine = weights_of(candidate, computed=not alike)
        self.theirs = weights_of(reference, computed=not alike)
        self.dtype = narrow((*self.mine, *self.theirs))
        self.wish, entries = _read(wish)
        self.given = Given(entries, _by_name(self.mine), _by_name(self.theirs))
        self.names = Names(candidate, reference, (self.mine, self.theirs), packings)
        self.tensors = {weight.name: weight.tensor for weight in self.theirs}
        self.computed = {weight.name for weight in self.theirs if weight.computed}
        self.idle = idle

    @cached_property
    def index(self) -> ValueIndex:
        """The rows of the reference, to be found by value."""
        return ValueIndex(self.theirs, self.dtype)


def _read(wish: str | Path | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return "auto", "keep" or "copy", and the entries of a map."""
    if isinstance(wish, str) and wish in {"auto", "keep", "copy"}:
        return wish, {}
    if isinstance(wish, str) and not wish.startswith("map=") and not wish.endswith(".json"):
        raise InputError(
            "reading weights=",
            f"there is no {wish!r}",
            'use "auto", "keep", "copy", a dict, the path of a JSON file, or "map=FILE"',
        )
    return "auto", read_map(wish.removeprefix("map=") if isinstance(wish, str) else wish)


def _by_name(weights: tuple[Weight, ...]) -> dict[str, Weight]:
    return {name: weight for weight in weights for name in weight.names}
