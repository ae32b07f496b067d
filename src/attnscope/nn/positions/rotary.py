"""Rotary embedding: q and k are turned by their positions, and their product knows the distance."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from attnscope.axes import Key, Query
from attnscope.errors import InputError
from attnscope.nn.kinds import is_number
from attnscope.nn.positions.protocol import Places, Positions

__all__ = ["Rotary"]

Pairing: TypeAlias = Literal["half", "interleaved"]
Split: TypeAlias = Float[Tensor, "batch heads tokens head_dim"]
Angles: TypeAlias = Float[Tensor, "#batch 1 tokens pairs"]


class Rotary(Positions):
    """Turns pairs of features of q and k: pair i at position p by the angle p · base^(-2i / width).

    (a, b) → (a cos - b sin, b cos + a sin), so that q·k depends on the distance alone. `width` is
    the share of head_dim that is turned, from its start; the rest stays. Source: Su et al. 2021
    (RoFormer), section 3.2.2.

    Args:
        base: the longest period is 2π · base (about). Others: `rope_theta` in Hugging Face.
        pairing: "half": feature i with i + width/2 (Llama, GPT-NeoX, `rotate_half`);
            "interleaved": feature 2i with 2i + 1 (GPT-J, Meta's own Llama).
        share: how much of head_dim is turned, above 0 up to 1; `partial_rotary_factor`.

    Example:
        >>> q = torch.randn(1, 2, 3, 8)
        >>> turned, _ = Rotary().turn(q, q, torch.arange(3), torch.arange(3))
        >>> bool(torch.equal(turned[:, :, 0], q[:, :, 0])), bool(torch.equal(turned, q))
        (True, False)
    """

    def __init__(
        self, base: float = 10000.0, pairing: Pairing = "half", share: float = 1.0
    ) -> None:
        super().__init__()
        if pairing not in {"half", "interleaved"}:
            raise _refused(f"pairing={pairing!r}", 'use "half" or "interleaved"')
        if not is_number(base) or base <= 0:
            raise _refused(f"base={base!r}", "give a positive number, such as 10000")
        if not is_number(share) or not 0 < share <= 1:
            raise _refused(f"share={share!r}", "give the share of head_dim that is turned, up to 1")
        self.base, self.pairing, self.share = base, pairing, share

    def require(self, heads: int, head_dim: int) -> None:
        """Refuse a width of which no even number of features is turned."""
        del heads
        self.width(head_dim)

    def turn(self, q: Query, k: Key, queries: Places, keys: Places) -> tuple[Query, Key]:
        """Return q and k, each turned by its position."""
        by_query = self._angles(q, queries)
        by_key = by_query if keys is queries else self._angles(k, keys)
        return self._turned(q, by_query), self._turned(k, by_key)

    def width(self, head_dim: int) -> int:
        """Return how many features of a head are turned.

        Raises:
            InputError: not an even number of them.
        """
        width = int(head_dim * self.share)
        if width % 2 or not width:
            raise _refused(
                f"share {self.share} of head_dim {head_dim}, which is {width} features",
                "choose them so that the number of turned features is even, and above 0",
            )
        return width

    def _angles(self, x: Split, positions: Places) -> Angles:
        """Return the angle of each pair: in float32, or finer where x is."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        width = self.width(x.shape[-1])
        pairs = torch.arange(0, width, 2, device=x.device, dtype=dtype)
        angles = positions.to(x.device, dtype)[..., None] * self.base ** (-pairs / width)
        return angles[None, None] if angles.dim() == 2 else angles[:, None]

    def _turned(self, x: Split, angles: Angles) -> Split:
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        width = 2 * angles.shape[-1]
        part, rest = x[..., :width], x[..., width:]
        if self.pairing == "half":
            a, b = part.chunk(2, -1)
            turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        else:
            a, b = part[..., 0::2], part[..., 1::2]
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        return torch.cat([turned, rest], -1) if rest.shape[-1] else turned

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"base={self.base}, pairing={self.pairing!r}, share={self.share}"


def _refused(found: str, todo: str) -> InputError:
    return InputError("making a rotary embedding", found, todo)
