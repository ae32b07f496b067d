"""Tokens as vectors, and absolute positions that are added to them.

Relative positions (rotary, ALiBi, T5, Shaw) act inside the attention and live in `positions`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnscope.errors import InputError
from attnscope.nn.kinds import described, is_count, is_number, is_whole

__all__ = ["LearnedPositions", "SinusoidalPositions", "TokenEmbedding", "check_ids"]
__all__ += ["sinusoidal_table"]

Ids: TypeAlias = Int[Tensor, "batch tokens"]
Positions: TypeAlias = Int[Tensor, "#batch tokens"]
Features: TypeAlias = Float[Tensor, "batch tokens width"]
Layout: TypeAlias = Literal["interleaved", "concatenated"]


def sinusoidal_table(
    positions: Tensor, width: int, *, base: float = 10000.0, layout: Layout = "interleaved"
) -> Tensor:
    """Return the sinusoidal embedding of `positions` (…) as (…, width).

    ``angle = position / base^(2i/width)``; "interleaved": ``sin`` at 2i, ``cos`` at 2i + 1, as in
    the paper; "concatenated": all sines, then all cosines, as in Tensor2Tensor and fairseq. The
    angles are computed in float64, so that late positions don't lose their fraction.

    Args:
        positions: whole numbers or floats, in tokens.
        width: features, an even number.
        base: sets the longest wavelength, ``2π·base`` tokens.
        layout: where sines and cosines stand.

    Raises:
        InputError: an odd width, or another layout.

    Source: Vaswani et al. 2017, section 3.5.

    Example:
        >>> sinusoidal_table(torch.arange(2), 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    if not is_count(width) or width % 2:
        raise InputError(
            doing="making sinusoidal positions",
            found=f"width={width!r}",
            todo="give an even width: sines and cosines come in pairs",
        )
    if not is_number(base) or base <= 0:
        raise InputError(
            doing="making sinusoidal positions",
            found=f"base={base!r}",
            todo="give a positive number, such as 10000",
        )
    if layout not in {"interleaved", "concatenated"}:
        raise InputError(
            doing="making sinusoidal positions",
            found=f"layout={layout!r}",
            todo='use "interleaved" (sin, cos, sin, cos …) or "concatenated" (sines, then cosines)',
        )
    powers = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width
    angles = positions.to(torch.float64).unsqueeze(-1) / base**powers
    both = torch.stack if layout == "interleaved" else torch.cat
    table = both([angles.sin(), angles.cos()], -1).flatten(positions.dim())
    return table.to(torch.get_default_dtype())


class SinusoidalPositions(nn.Module):
    """Adds `sinusoidal_table` to embeddings; nothing is learned and no length is the last.

    Args:
        width: features of a token.
        base: as for `sinusoidal_table`.
        layout: as for `sinusoidal_table`.

    Source: Vaswani et al. 2017, section 3.5. Elsewhere: PositionalEncoding (torch tutorials).

    Example:
        >>> SinusoidalPositions(8)(torch.zeros(2, 5, 8), torch.arange(5)[None]).shape
        torch.Size([2, 5, 8])
    """

    def __init__(
        self, width: int, *, base: float = 10000.0, layout: Layout = "interleaved"
    ) -> None:
        super().__init__()
        sinusoidal_table(torch.arange(1), width, base=base, layout=layout)  # refuse early
        self.width, self.base, self.layout = width, base, layout

    def forward(self, x: Features, positions: Positions) -> Features:
        """Return x (batch, tokens, width) with its positions (1 or batch, tokens) added."""
        table = sinusoidal_table(positions, self.width, base=self.base, layout=self.layout)
        return x + table.to(x)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.width}, base={self.base:g}, layout={self.layout!r}"


class LearnedPositions(nn.Module):
    """Adds a learned vector for each of `longest` positions.

    Args:
        longest: how many positions there are; a later one is an error.
        width: features of a token.

    Raises:
        InputError: in forward, a position that the table does not have.

    Source: Devlin et al. 2018 (BERT), section 3; Gehring et al. 2017. Elsewhere: `wpe` (GPT-2),
    `position_embeddings` (BERT).

    Example:
        >>> LearnedPositions(16, 8)(torch.zeros(2, 5, 8), torch.arange(5)[None]).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        _check_sizes("making learned positions", longest=longest, width=width)
        self.positions = nn.Embedding(longest, width)

    def forward(self, x: Features, positions: Positions) -> Features:
        """Return x (batch, tokens, width) with its positions (1 or batch, tokens) added."""
        _check_rows(positions, self.positions.num_embeddings)
        summed: Tensor = x + self.positions(positions)
        return summed


class TokenEmbedding(nn.Module):
    """Tokens as vectors, with absolute positions added, and dropout.

    ``dropout(factor · table[ids] + positions)``

    Args:
        vocabulary: number of tokens.
        width: features of a token.
        positions: adds positions to embeddings (batch, tokens, width); None: added nowhere.
        factor: of the table's rows: √width in Vaswani et al. 2017 (section 3.4), else 1.
        dropout: probability, of the sum (section 5.4).

    Example:
        >>> embed = TokenEmbedding(100, 8, SinusoidalPositions(8), factor=8**0.5)
        >>> embed(torch.tensor([[5, 7, 9]])).shape
        torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        positions: nn.Module | None = None,
        *,
        factor: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check_sizes("making an embedding of tokens", vocabulary=vocabulary, width=width)
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = positions
        self.factor = factor
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Ids, positions: Positions | None = None) -> Features:
        """Return (batch, tokens, width) for token ids; positions count from 0 where none are given.

        Raises:
            InputError: an id that is not in the vocabulary.
        """
        _check_ids(ids, self.tokens.num_embeddings)
        x: Tensor = self.tokens(ids)
        if self.factor != 1.0:
            x = x * self.factor
        if self.positions is not None:
            if positions is None:
                positions = torch.arange(ids.shape[-1], device=ids.device)[None]
            x = self.positions(x, positions)
        result: Tensor = self.dropout(x)
        return result


def _check_sizes(doing: str, **sizes: object) -> None:
    for name, size in sizes.items():
        if not is_count(size):
            raise InputError(doing, f"{name}={size!r}", "give a positive whole number")


def _check_rows(positions: Any, rows: int) -> None:
    """Refuse positions that a table of so many rows does not have."""
    doing = "adding learned positions"
    if not isinstance(positions, Tensor) or not is_whole(positions, positions.dim()):
        raise InputError(doing, f"positions: {described(positions)}", "give whole numbers")
    if torch.compiler.is_compiling() or not positions.numel():
        return
    low, high = int(positions.min()), int(positions.max())
    if low < 0 or high >= rows:
        raise InputError(
            doing,
            f"position {low if low < 0 else high}; the table ends at {rows - 1}",
            "give positions of 0 or more"
            if low < 0
            else "give shorter inputs, or make the model with a larger `longest`",
        )


def _check_ids(ids: Ids, vocabulary: int) -> None:
    check_ids(ids)
    if torch.compiler.is_compiling() or not ids.numel():
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocabulary:
        raise InputError(
            doing="embedding tokens",
            found=f"the id {low if low < 0 else high}, of a vocabulary of {vocabulary}",
            todo="give ids of this vocabulary (-100 belongs into labels only)",
        )


def check_ids(ids: object) -> None:
    """Refuse what are no token ids (batch, tokens), of whatever vocabulary.

    Raises:
        InputError: another type, or other axes.
    """
    if not is_whole(ids, 2):
        raise InputError(
            doing="embedding tokens",
            found=f"ids: {described(ids)}",
            todo="give token ids (batch, tokens), whole numbers: one sequence is ids[None]",
        )
