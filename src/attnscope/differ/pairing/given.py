"""Pairs as the user gives them: `map=`, a dict or a JSON file, candidate name to reference name.

====================================================  =========================================
value                                                 means
====================================================  =========================================
``"name"``                                            the whole tensor of the reference
``{"from": "name", "rows": [a, b]}``                  rows a to b, b not included
``{"from": "name", "columns": [a, b]}``               columns a to b, b not included
``{"from": "name", "transpose": true}``               transposed, after rows or columns are cut
``{"from": "name", "heads": n, "order": [2, 0, 1]}``  its rows as n heads, in another order
``{"from": "name", "heads": n, "rotary": "halves"}``  interleaved rotary rows put into halves
                                                      ("interleaved": the reverse)
``[...]``                                             these below one another
``{"blocks": ...}``                                   what `to_json` writes
a number                                              a tensor of that value
``null``                                              left as it is, no counterpart
====================================================  =========================================

The key ``"ignore"`` lists names of the reference (with ``*`` for any letters) that have none.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.differ.pairing.arrangement import (
    Arrangement,
    Block,
    View,
    blank,
    columns_of,
    compress,
    entire,
    flat,
    rows_of,
)
from attnscope.differ.pairing.tensors import Weight
from attnscope.errors import InputError

IGNORE = "ignore"
_KEYS = {"from", "rows", "columns", "transpose", "heads", "order", "rotary"}
_CUTS = {"rows", "columns"}  # one or the other
_DOING = "reading map="


def read_map(wish: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """Return the map as a dict, read from a JSON file where a path is given.

    Raises:
        InputError: the file can't be read, holds no JSON, or no object.
    """
    if isinstance(wish, Mapping):
        return dict(wish)
    path = Path(wish)
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            _DOING, f"{path} can't be read: {error.strerror}", "give a JSON file"
        ) from error
    except ValueError as error:
        raise InputError(_DOING, f"{path} holds no JSON: {error}", "write it as JSON") from error
    if not isinstance(read, dict):
        raise InputError(
            _DOING, f"{path} holds a {type(read).__name__}", 'write {"candidate": "reference"}'
        )
    return read


class Given:
    """The pairs of a map, checked against the tensors of both models.

    Args:
        entries: the map.
        candidate: tensors of the candidate, by each of their names.
        reference: tensors of the reference, by each of their names.

    Raises:
        InputError: a name that doesn't exist, sizes that don't fit, an entry that can't be read.
    """

    def __init__(
        self,
        entries: Mapping[str, Any],
        candidate: Mapping[str, Weight],
        reference: Mapping[str, Weight],
    ) -> None:
        self.reference = reference
        self.arrangements: dict[str, Arrangement] = {}
        self.alone: set[str] = set()
        self.ignored = self._patterns(entries.get(IGNORE, ()))
        for name, value in entries.items():
            if name == IGNORE:
                continue
            weight = _known(name, candidate, "candidate")
            if value is None:
                self.alone.add(weight.name)
                continue
            try:
                found = self._read(value, weight.shape)
            except (KeyError, TypeError, ValueError) as error:
                raise _unreadable(name, value) from error
            self._check(name, found)
            self.arrangements[weight.name] = found

    def _patterns(self, patterns: object) -> set[str]:
        listed = [patterns] if isinstance(patterns, str) else patterns
        if not isinstance(listed, Sequence):
            raise _unreadable(IGNORE, patterns)
        found: set[str] = set()
        for pattern in listed:
            names = {w.name for name, w in self.reference.items() if fnmatchcase(name, pattern)}
            found |= names or {_known(str(pattern), self.reference, "reference").name}
        return found

    def _read(self, value: Any, shape: tuple[int, ...]) -> Arrangement:
        if isinstance(value, bool):
            raise TypeError
        if isinstance(value, int | float):
            view = rows_of(len(shape))
            return Arrangement(shape, view, (blank(view.size(shape)[0], view, float(value)),))
        if isinstance(value, str):
            return self._whole(value, shape)
        if isinstance(value, list | tuple):
            return self._laid(value, shape)
        if "blocks" in value:
            return self._written(value, shape)
        return (
            self._whole(value["from"], shape)
            if set(value) == {"from"}
            else self._laid([value], shape)
        )

    def _whole(self, name: str, shape: tuple[int, ...]) -> Arrangement:
        weight = _known(name, self.reference, "reference")
        alike = len(weight.shape) == len(shape)
        view = rows_of(len(shape)) if alike else flat(len(shape))
        seen = view if alike else flat(len(weight.shape))
        return Arrangement(shape, view, (entire(weight, seen),))

    def _laid(self, entries: Sequence[Any], shape: tuple[int, ...]) -> Arrangement:
        """Read entries that are laid below (or, cut by columns, beside) one another."""
        pieces = [self._piece(entry) for entry in entries]
        sides = {beside for _, beside in pieces}
        if len(sides) != 1:
            raise ValueError
        view = columns_of(len(shape)) if sides.pop() else rows_of(len(shape))
        return Arrangement(shape, view, tuple(block for block, _ in pieces))

    def _piece(self, value: Any) -> tuple[Block, bool]:
        """Return the rows that one entry takes, and whether they become columns."""
        entry = {"from": value} if isinstance(value, str) else value
        if isinstance(entry, int | float) or not set(entry) <= _KEYS or {*entry} >= _CUTS:
            raise ValueError
        weight = _known(entry["from"], self.reference, "reference")
        across = "columns" in entry
        view = columns_of(len(weight.shape)) if across else rows_of(len(weight.shape))
        index = np.arange(view.size(weight.shape)[0])
        cut = entry.get("columns" if across else "rows")
        if cut is not None:
            start, stop = (int(edge) for edge in cut)
            if not 0 <= start < stop <= len(index):
                raise _beyond(weight, cut, len(index))
            index = index[start:stop]
        runs = compress(_ordered(index, entry))
        block = Block(weight.name, weight.shape, view, runs)
        return block, across != bool(entry.get("transpose", False))

    def _written(self, value: Mapping[str, Any], shape: tuple[int, ...]) -> Arrangement:
        """Read what `Arrangement.to_json` writes."""
        view = View(tuple(value["axes"]), int(value["rows"]))
        blocks = []
        for block in value["blocks"]:
            if "fill" in block:
                blocks.append(blank(int(block["count"]), view, float(block["fill"])))
                continue
            weight = _known(block["from"], self.reference, "reference")
            seen = View(tuple(block["axes"]), int(block["rows"]))
            runs = tuple((int(a), int(b), int(step)) for a, b, step in block["runs"])
            blocks.append(Block(weight.name, weight.shape, seen, runs))
        return Arrangement(shape, view, tuple(blocks))

    def _check(self, name: str, found: Arrangement) -> None:
        """Compare sizes, and say them, before anything is copied."""
        height, width = found.view.size(found.shape)
        given = sum(len(block.index()) for block in found.blocks)
        widths = {
            block.view.size(self.reference[block.reference].shape)[1]
            for block in found.blocks
            if block.reference
        }
        if given == height and widths <= {width}:
            return
        said = " and ".join(f"{other} {self.reference[other].shape}" for other in found.references)
        raise InputError(
            _DOING,
            f"{name} {found.shape} needs {height} rows of {width}, and {said} gives {given} rows"
            f" of {' or '.join(map(str, sorted(widths)))}",
            'cut it with {"from": ..., "rows": [a, b]}, or turn it with "transpose": true',
        )


def _ordered(index: np.ndarray, entry: Mapping[str, Any]) -> np.ndarray:
    """Return rows in the order of heads, or of rotary features, that an entry asks for."""
    if "heads" not in entry:
        if "order" in entry or "rotary" in entry:
            raise ValueError
        return index
    heads = index.reshape(int(entry["heads"]), -1)
    if "order" in entry:
        heads = heads[np.array(entry["order"])]
    if "rotary" in entry:
        pairs = {"halves": (-1, 2), "interleaved": (2, heads.shape[1] // 2)}[entry["rotary"]]
        turned: np.ndarray = heads.reshape(len(heads), *pairs).swapaxes(1, 2)
        return turned.reshape(-1)
    return heads.reshape(-1)


def _known(name: str, weights: Mapping[str, Weight], side: str) -> Weight:
    if name in weights:
        return weights[name]
    close = difflib.get_close_matches(str(name), list(weights), n=3, cutoff=0.5)
    todo = f"did you mean {' or '.join(close)}?" if close else f"it has: {', '.join(weights)}"
    raise InputError(_DOING, f"the {side} has no parameter {name!r}", todo)


def _beyond(weight: Weight, cut: object, rows: int) -> InputError:
    return InputError(
        _DOING,
        f"{cut} lies outside the {rows} rows of {weight.name} {weight.shape}",
        "count from 0, the end not included",
    )


def _unreadable(name: str, value: object) -> InputError:
    return InputError(
        _DOING,
        f"the entry {json.dumps(value, default=str)} for {name} can't be read",
        'give a name, {"from": name, "rows": [a, b], "transpose": true}, a list of these, a'
        " number, or null",
    )
