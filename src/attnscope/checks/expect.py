"""What the author of a model intends: `expect`, read from a file or from KEY=VALUE."""

from __future__ import annotations

import ast
import contextlib
import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attnscope.errors import TargetError


def _boolean(value: object) -> bool:
    return isinstance(value, bool)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _axis(value: object) -> bool:
    return _whole(value) and isinstance(value, int) and value >= 0


def _factor(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _prefix(value: object) -> bool:
    return (_whole(value) and isinstance(value, int) and value >= 0) or _text(value)


def _padding(value: object) -> bool:
    words = value.split() if isinstance(value, str) else []
    if len(words) != 2:
        return False
    meaning = words[1]
    return (
        meaning in {"keep", "drop", "lengths"} or meaning.removeprefix("pad=").lstrip("-").isdigit()
    )


def _window(value: object) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(item is None or _window(item) for item in value)
    return _whole(value) and isinstance(value, int) and value > 0


def _positions(value: object) -> bool:
    return value is False or _text(value)


def _dropout(value: object) -> bool:
    return value in ("off in eval", "on in eval")


KEYS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "causal": (_boolean, "true or false"),
    "prefix": (_prefix, "a number of positions, or the name of an input"),
    "padding": (_padding, '"NAME keep", "NAME drop", "NAME lengths" or "NAME pad=ID"'),
    "window": (_window, "a number above 0, or a list with one per layer (None = unlimited)"),
    "documents": (_text, "the name of the input with a document id per token"),
    "scale": (_factor, "a number above 0"),
    "softcap": (_factor, "a number above 0"),
    "batch_axis": (_axis, "the number of an axis, from 0"),
    "sequence_axis": (_axis, "the number of an axis, from 0"),
    "cache": (_text, 'the name of the argument that takes the past, or "self"'),
    "positions": (_positions, "the name of the position input, or false"),
    "dropout": (_dropout, '"off in eval" or "on in eval"'),
}


def read_expect(value: object, doing: str) -> dict[str, Any]:
    """Return a checked copy of `expect`, a dict with any of `KEYS`.

    Args:
        value: what a file defines as `expect`.
        doing: the first part of an error, e.g. "reading expect of model.py".

    Raises:
        TargetError: it isn't a dict, has a key that doesn't exist, or a value that doesn't fit.
    """
    if not isinstance(value, Mapping):
        raise TargetError(
            doing, f"expect is of type {type(value).__name__}", 'make it a dict: {"causal": True}'
        )
    for key, item in value.items():
        if key not in KEYS:
            raise TargetError(doing, f"there is no key {key!r}", _suggest(str(key)))
        fits, wanted = KEYS[key]
        if not fits(item):
            raise TargetError(doing, f"{key} is {item!r}", f"give {wanted}")
    return dict(value)


def parse_expect(pairs: Iterable[str]) -> dict[str, Any]:
    """Return the `expect` that KEY=VALUE arguments spell.

    Values are read as Python or JSON literals (`true`, `0.125`, `[4, None]`) and else as text.

    Raises:
        TargetError: an argument has no `=`, or its key or value doesn't fit.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign:
            raise TargetError("reading --expect", f"{pair!r} has no =", "write --expect KEY=VALUE")
        found |= read_expect({key.strip(): _literal(text.strip())}, f"reading --expect {pair}")
    return found


def _literal(text: str) -> object:
    words: dict[str, object] = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for read in (json.loads, ast.literal_eval):  # [1, null] as well as (1, None)
        with contextlib.suppress(ValueError, SyntaxError):
            value: object = read(text)
            return value
    return text


def _suggest(key: str) -> str:
    close = difflib.get_close_matches(key, KEYS, n=1)
    return f"did you mean {close[0]}?" if close else f"use one of: {', '.join(KEYS)}"
