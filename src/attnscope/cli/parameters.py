"""Kinds of values that options take beside those that click knows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click


class Weights(click.ParamType[str | Path]):
    """How the candidate gets its weights: a word, or map=FILE."""

    name = "weights"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002  click's signature
        """Return what the help shows."""
        return "auto|keep|copy|map=FILE"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | Path:
        """Return the word, or the path of the file."""
        if isinstance(value, Path) or value in {"auto", "keep", "copy"}:
            return value  # type: ignore[no-any-return]
        kind, sign, file = str(value).partition("=")
        if kind != "map" or not sign:
            self.fail(f"{value!r} is none of auto, keep, copy, map=FILE", param, ctx)
        if not Path(file).is_file():
            self.fail(f"there is no file {file!r}: write map=FILE.json", param, ctx)
        return Path(file)


class Factor(click.ParamType[float]):
    """A finite number above zero."""

    name = "factor"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not 0 < number < math.inf:
            self.fail(f"{value} is not a finite number above 0", param, ctx)
        return number
