"""What the constructor of `MultiheadAttention` refuses: sizes, and parts of another kind.

A part that is wrong would fail in the first forward, far from where it was written.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from attnscope.nn.dropouts import AttentionDropouts
from attnscope.nn.headnorm import AcrossHeads, PerHead
from attnscope.nn.kinds import described, is_count, is_number, is_part
from attnscope.nn.masks import Mask
from attnscope.nn.positions import Positions
from attnscope.nn.refusals import RefusedInputError
from attnscope.nn.scores import Sinks

__all__ = ["check_fit", "check_parts", "check_sizes"]

_MAKING = "making a MultiheadAttention"


def check_sizes(
    embed_dim: int,
    heads: int,
    kv_heads: int,
    head_dim: int | None,
    kdim: int | None,
    vdim: int | None,
) -> None:
    """Refuse sizes that are no positive numbers, or don't divide each other."""
    if not is_count(embed_dim) or not is_count(heads):
        raise RefusedInputError(
            _MAKING,
            f"embed_dim={embed_dim!r}, num_heads={heads!r}",
            "give positive whole numbers",
        )
    for name, size in (("head_dim", head_dim), ("kdim", kdim), ("vdim", vdim)):
        if size is not None and not is_count(size):
            raise RefusedInputError(_MAKING, f"{name}={size!r}", "give a positive whole number")
    if head_dim is None and embed_dim % heads:
        raise RefusedInputError(
            _MAKING,
            f"embed_dim {embed_dim}, which is not divisible by num_heads {heads}",
            "choose them so that embed_dim = num_heads * head_dim, or give head_dim",
        )
    if not is_count(kv_heads) or heads % kv_heads:
        raise RefusedInputError(
            _MAKING,
            f"num_heads {heads}, which kv_heads {kv_heads!r} does not divide",
            "choose kv_heads so that each serves the same number of heads",
        )


def check_parts(**parts: Any) -> None:
    """Refuse parts, by the names of the constructor, that are of another kind than they should be.

    None is no part, and always fits.
    """
    for name, part in parts.items():
        fits, wanted = _WANTED[name]
        if part is not None and not fits(part):
            raise RefusedInputError(_MAKING, f"{name}: {described(part)}", f"give {wanted}")


def check_fit(heads: int, head_dim: int, positions: Positions | None, sinks: Any) -> None:
    """Refuse positions and sinks that were made for other sizes.

    Raises:
        InputError: the part says which sizes it was made for.
    """
    if isinstance(positions, Positions):
        positions.require(heads, head_dim)
    if isinstance(sinks, Sinks):
        sinks.require(heads)


def _is_rate(value: object) -> bool:
    return is_number(value) and 0 <= value <= 1  # type: ignore[operator]  # it is a number


def _is_norm(value: object) -> bool:
    """Return whether a value makes norms: a class or function, not a norm already made."""
    if isinstance(value, (PerHead, AcrossHeads)):
        return True
    return callable(value) and not isinstance(value, nn.Module)


def _is_step(value: object) -> bool:
    return is_part(value) and callable(value)


_NORM = "what makes a norm of a width: torch.nn.RMSNorm, PerHead(norm), AcrossHeads(norm)"

_WANTED = {
    "dropout": (_is_rate, "a probability from 0 to 1"),
    "scale": (is_number, "a finite number, or None for 1/√head_dim"),
    "projections": (
        lambda part: is_part(part, "build"),
        "Separate(), Fused(), SharedKeyValue() or SharedQueryKey()",
    ),
    "qk_norm": (_is_norm, _NORM),
    "positions": (
        lambda part: is_part(part, "turn", "bias"),
        "Rotary(), ALiBi(), T5Bias(heads) or ShawKeys(head_dim): an object",
    ),
    "scores": (_is_step, "a module of scores: Softcap(50.0)"),
    "mask": (
        lambda part: isinstance(part, Mask),
        "Causal(), Window(n), Prefix(n), joined with & and |; a tensor goes to the forward",
    ),
    "sinks": (_is_step, "Sinks(heads) or ZeroSink()"),
    "dropouts": (
        lambda part: isinstance(part, AttentionDropouts),
        "AttentionDropouts(scores=…, context=…, output=…); dropout= is that of the weights",
    ),
    "context_norm": (_is_norm, _NORM),
    "output": (lambda part: is_part(part, "build"), "HeadwiseOutput()"),
}
