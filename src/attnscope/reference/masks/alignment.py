"""Where queries stand among the keys: the one thing that every mask by place has to be told."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attnscope.errors import InputError
from attnscope.reference.given import choice, count

__all__ = ["Alignment", "first_place"]

Alignment: TypeAlias = Literal["top-left", "bottom-right"]
"""Where the first query stands: at the first key, or so that the last query is at the last key."""


def first_place(queries: int, keys: int, alignment: Alignment | None) -> int:
    """Return the key at which the first query stands; see `Alignment`.

    It is below 0 where the first query stands before all keys.

    Raises:
        InputError: the numbers differ and no corner is named, there is no such corner, or they
            are no whole numbers from 0 on.

    >>> first_place(2, 5, "bottom-right")
    3
    """
    doing = "aligning queries with keys"
    queries = count(doing, "queries", queries, least=0)
    keys = count(doing, "keys", keys, least=0)
    if alignment is not None:
        choice(doing, "the corner", alignment, ("top-left", "bottom-right"))
    if alignment is None and queries != keys:
        raise InputError(
            doing,
            f"{queries} queries and {keys} keys, and no corner",
            'say "top-left" (query i stands at key i, as is_causal=True of PyTorch) or '
            '"bottom-right" (the last query stands at the last key, as with a cache)',
        )
    return keys - queries if alignment == "bottom-right" else 0
