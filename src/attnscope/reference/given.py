"""What a caller gave, as arrays of float64 or of whole numbers, or an error that says what it was.

Every function of the reference begins here, so that a list, a float32 array or a tensor on the CPU
is taken as what it means, and a mask or text in its place is not.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Float64, Int64

from attnscope.errors import InputError
from attnscope.reference.axes import Key, Query, Value

__all__ = [
    "along",
    "array",
    "choice",
    "count",
    "fit",
    "flag",
    "gradient_of",
    "instance",
    "kept",
    "number",
    "positive",
    "real",
    "streams",
    "whole",
]


def array(doing: str, name: str, value: object) -> np.ndarray:
    """Return `value` as an array of whatever type it has.

    Raises:
        InputError: it can't be read as an array: ragged lists, a tensor that needs gradients.
    """
    try:
        return np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as error:  # what torch and NumPy raise
        raise InputError(
            doing,
            f"{name} can't be read as an array ({error})",
            f"give {name} as an array of numbers (of a tensor: .detach().double().numpy())",
        ) from error


def real(doing: str, name: str, value: object, axes: int = 0) -> Float64[np.ndarray, " ..."]:
    """Return `value` as float64 with at least `axes` axes.

    Raises:
        InputError: not real numbers (booleans are none), or fewer axes.
    """
    found = array(doing, name, value)
    if found.dtype.kind not in "fiu":
        raise InputError(
            doing,
            f"{name} is of type {found.dtype} and shape {found.shape}",
            f"give {name} as real numbers",
        )
    _has(doing, name, found.shape, axes)
    return found.astype(np.float64, copy=False)


def whole(doing: str, name: str, value: object, axes: int = 0) -> Int64[np.ndarray, " ..."]:
    """Return `value` as int64 with at least `axes` axes.

    Raises:
        InputError: of another type than integer, even where each number is whole, or fewer axes.
    """
    found = array(doing, name, value)
    if found.dtype.kind not in "iu":
        raise InputError(
            doing,
            f"{name} is of type {found.dtype} and shape {found.shape}",
            f"give {name} as integers, such as np.arange(length)",
        )
    _has(doing, name, found.shape, axes)
    return found.astype(np.int64, copy=False)


def count(doing: str, name: str, value: object, least: int = 1) -> int:
    """Return `value` as an int of at least `least`.

    Raises:
        InputError: not a whole number, or smaller.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(doing, f"{name} is {_shown(value)}", "give a whole number")
    if value < least:
        raise InputError(doing, f"{name} is {value}", f"give at least {least}")
    return int(value)


def number(doing: str, name: str, value: object, least: float = -np.inf) -> float:
    """Return `value` as one finite number of at least `least`.

    Raises:
        InputError: text, a boolean, more than one number, infinity or NaN, or a smaller one.
    """
    found = array(doing, name, value)
    if found.dtype.kind not in "fiu" or found.ndim or not np.isfinite(found):
        raise InputError(doing, f"{name} is {_shown(value)}", "give one finite number")
    if found < least:
        raise InputError(doing, f"{name} is {value}", f"give at least {least:g}")
    return float(found)


def positive(doing: str, todo: str = "give a positive number", **numbers: object) -> None:
    """Raise InputError where one of the named `numbers` is not a positive number."""
    for name, value in numbers.items():
        if number(doing, name, value) <= 0:
            raise InputError(doing, f"{name} is {_shown(value)}", todo)


def flag(doing: str, name: str, value: object) -> bool:
    """Return `value` as True or False; a name or a number in its place would pass for True.

    Raises:
        InputError: anything but a boolean.
    """
    if not isinstance(value, bool | np.bool_):
        raise InputError(doing, f"{name} is {_shown(value)}", "give True or False")
    return bool(value)


def instance(doing: str, name: str, value: object, kind: type) -> None:
    """Raise InputError where `value` is no object of `kind`."""
    if not isinstance(value, kind):
        raise InputError(
            doing, f"{name} is {_shown(value)}", f"give an object of {kind.__name__}, made by it"
        )


def choice(doing: str, name: str, value: object, names: Iterable[str]) -> None:
    """Raise InputError where `value` is none of `names`."""
    names = tuple(names)
    if not isinstance(value, str) or value not in names:
        known = " or ".join(repr(one) for one in names)
        raise InputError(doing, f"{name} is {_shown(value)}", f"give {known}")


def fit(doing: str, shapes: dict[str, tuple[int, ...]], rule: str, *, holds: bool) -> None:
    """Raise InputError with all `shapes` where the `rule` that binds them does not hold."""
    if not holds:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(doing, f"the shapes are {found}", rule)


def gradient_of(
    doing: str, gradient: object, shape: tuple[int, ...]
) -> Float64[np.ndarray, " ..."]:
    """Return the gradient of a result of this shape as float64.

    Raises:
        InputError: not real numbers, or of another shape.
    """
    found = real(doing, "the gradient", gradient)
    if found.shape != shape:
        raise InputError(
            doing,
            f"a gradient of shape {found.shape} for a result of shape {shape}",
            "give the gradient of the result",
        )
    return found


def along(doing: str, axis: object, **arrays: object) -> tuple[Float64[np.ndarray, " ..."], ...]:
    """Return arrays of one shape as float64, which are worked on along one of their axes.

    Raises:
        InputError: not real numbers, shapes that differ, or an axis that they have not.
    """
    found = {name: real(doing, name, value, axes=1) for name, value in arrays.items()}
    shapes = {name: one.shape for name, one in found.items()}
    fit(doing, shapes, "give all one shape", holds=len(set(shapes.values())) == 1)
    axes = len(next(iter(shapes.values())))
    if count(doing, "axis", axis, least=-axes) >= axes:
        raise InputError(doing, f"axis is {axis} of {axes} axes", f"give -1, or 0 to {axes - 1}")
    return tuple(found.values())


def streams(doing: str, q: object, k: object, v: object) -> tuple[Query, Key, Value]:
    """Return q, k and v as float64, with one set of leading axes.

    Raises:
        InputError: not real numbers, or shapes that don't fit each other.
    """
    given = zip("qkv", (q, k, v), strict=True)
    q, k, v = (real(doing, name, one, axes=2) for name, one in given)
    fit(
        doing,
        {"q": q.shape, "k": k.shape, "v": v.shape},
        "give q (..., queries, head_dim), k (..., keys, head_dim), v (..., keys, value_dim) with "
        "the same leading axes",
        holds=q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        and q.shape[-1] == k.shape[-1] > 0
        and k.shape[-2] == v.shape[-2],
    )
    return q, k, v


def kept(doing: str, keep: object, shape: tuple[int, ...]) -> Bool[np.ndarray, "*leading keys"]:
    """Return which keys are real tokens (True) and which padding, broadcastable to `shape`.

    Raises:
        InputError: not boolean, or of a shape that does not broadcast.
    """
    if keep is None:
        return np.ones(shape[-1:], dtype=np.bool_)
    found = array(doing, "keep", keep)
    if found.dtype.kind != "b":
        raise InputError(
            doing,
            f"keep is of type {found.dtype}",
            "give booleans, True = a real token (a tokenizer's 1/0 mask: mask == 1)",
        )
    pairs = zip(reversed(found.shape), reversed(shape), strict=False)
    fit(
        doing,
        {"keep": found.shape, "keys": shape},
        "give keep (keys,), or with leading axes that broadcast to those of k",
        holds=0 < found.ndim <= len(shape) and all(a in {1, b} for a, b in pairs),
    )
    return found


def _has(doing: str, name: str, shape: tuple[int, ...], axes: int) -> None:
    if len(shape) < axes:
        least = "1 axis" if axes == 1 else f"{axes} axes"
        raise InputError(doing, f"{name} has the shape {shape}", f"give it at least {least}")


def _shown(value: object) -> str:
    """Return a value as an error names it: no more than one line of it."""
    text = repr(value)
    longest = 60
    return text if len(text) <= longest else f"of type {type(value).__name__}"
