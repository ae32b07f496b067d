"""What NumPy takes as an array, what broadcasts to what, and the sum that undoes it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import InputError

__all__ = ["AsArray", "fits", "sum_to"]


class AsArray:
    """A result of many steps that NumPy takes as one of them, named by `main`."""

    __slots__ = ()
    main: ClassVar[str]

    def __array__(
        self,
        dtype: np.dtype | None = None,
        copy: bool | None = None,  # noqa: FBT001 - NumPy passes it by this name
    ) -> NDArray[np.float64]:
        return np.array(getattr(self, self.main), dtype=dtype, copy=copy)


def fits(name: str, given: tuple[int, ...], wanted: tuple[int, ...], axes: str, doing: str) -> None:
    """Check that an array of shape `given` broadcasts to `wanted`, whose axes are called `axes`.

    Raises:
        InputError: it does not.
    """
    lined_up = zip(reversed(given), reversed(wanted), strict=False)
    if len(given) > len(wanted) or any(size not in {1, want} for size, want in lined_up):
        raise InputError(
            doing,
            f"{name} of shape {given}, to be broadcast to {wanted}",
            f"give {name} with a shape that broadcasts to {axes}",
        )


def sum_to(gradient: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Sum a gradient over the axes along which its argument of shape `shape` was broadcast.

    >>> sum_to(np.ones((2, 3)), (1, 3))
    array([[2., 2., 2.]])
    """
    extra = gradient.ndim - len(shape)
    summed = gradient.sum(tuple(range(extra)))
    narrow = tuple(i for i, size in enumerate(shape) if size == 1 and summed.shape[i] != 1)
    return np.asarray(summed.sum(narrow, keepdims=True))
