"""Gradients by central differences, to hold every backward against its own forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

STEP = 1e-5
"""Of the order of ε^(1/3), where truncation (STEP²) and cancellation (ε / STEP) are alike."""

CLOSE = 1e-8
"""A hundred times STEP², for numbers of the order of 1 whose third derivatives are of 100."""

ROUNDING = 1e-13
"""Sums of up to a hundred products of the order of 1: a hundred times ε, and some."""


def slopes(function: Callable[..., Array], *arguments: Array, along: Array) -> list[Array]:
    """Return the gradient of Σ function(*arguments) · along with respect to each argument."""
    found = []
    for place, argument in enumerate(arguments):
        gradient = np.zeros(argument.shape)
        for index in np.ndindex(argument.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = argument.copy()
                moved[index] += step
                value = function(*arguments[:place], moved, *arguments[place + 1 :])
                ends.append(float((value * along).sum()))
            gradient[index] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(gradient)
    return found
