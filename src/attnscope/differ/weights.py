"""Weights mapped with proof: which tensor of the candidate is which of the reference.

`pair` looks and copies nothing; `WeightMap.apply` copies. Values are asked first, under any
names and packings, then names, then shapes; every pair says by which, and what proves it. A map
never hides a fault: where the candidate holds the reference's values already, nothing is copied,
neither what is turned nor what differs, and both are said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn

from attnscope.differ.pairing.asked import Asked
from attnscope.differ.pairing.choosing import matched
from attnscope.differ.pairing.gradients import GradientPair
from attnscope.differ.pairing.idle import idle_parameters
from attnscope.differ.pairing.packing import Packing
from attnscope.differ.pairing.problems import unpaired_error
from attnscope.differ.pairing.weightmap import Left, Pair, Restored, WeightMap
from attnscope.differ.pairing.wording import in_words

__all__ = [
    "GradientPair",
    "Left",
    "Packing",
    "Pair",
    "Restored",
    "WeightMap",
    "Wish",
    "idle_parameters",
    "pair",
]

Wish: TypeAlias = str | Path | Mapping[str, Any]
"""What `weights=` takes: "auto", "keep", "copy", a map, the path of a JSON file, "map=FILE"."""


def pair(
    candidate: nn.Module,
    reference: nn.Module,
    wish: Wish = "auto",
    *,
    packings: Mapping[str, Packing] | None = None,
    idle: tuple[Collection[str], Collection[str]] = ((), ()),
    strict: bool = True,
) -> WeightMap:
    """Return which tensor of the candidate is which of the reference; nothing is copied yet.

    ========  =============================================================================
    wish      means
    ========  =============================================================================
    "auto"    values that correspond stay as they are; where most do, those that differ stay
              too, and are said; else what does not correspond is copied by name
    "keep"    nothing is copied, and what has no counterpart is no error
    "copy"    everything is copied by name
    a map     a dict, the path of a JSON file, or "map=FILE", see `pairing/given.py`; what it
              does not name goes by "auto"
    ========  =============================================================================

    Args:
        candidate: the model under test.
        reference: the model it is compared with.
        wish: as above.
        packings: how fused projections are packed, by their names on either side, where that is
            known better than by their class.
        idle: parameters of the candidate and of the reference that take no part in the output (see
            `idle_parameters`): they need no counterpart, and are said to be idle.
        strict: raise for what has no counterpart; else list it in `unpaired`.

    Raises:
        InputError: a tensor has no counterpart, or a map can't be used.

    Example:
        >>> fused, split = nn.Module(), nn.Module()
        >>> fused.qkv = nn.Linear(4, 12)
        >>> split.q_proj, split.k_proj, split.v_proj = (nn.Linear(4, 4) for _ in range(3))
        >>> print(pair(split, fused)["k_proj.weight"].how)
        rows [4:8]
    """
    matching = matched(Asked(candidate, reference, wish, packings or {}, idle))
    if strict and matching.wish != "keep" and (matching.unpaired[0] or matching.unpaired[1]):
        raise unpaired_error(*matching.unpaired, matching.reasons)
    pairs = tuple(
        Pair(
            candidate=weight.name,
            shape=weight.shape,
            references=found.arrangement.references,
            how=in_words(found.arrangement),
            method=found.method,
            proof=found.proof,
            why=found.why,
            arrangement=found.arrangement,
            tied=weight.names[1:],
            largest=found.largest,
            note=found.note,
        )
        for weight in matching.mine
        if (found := matching.found.get(weight.name)) is not None
    )
    none = "no counterpart was found"
    unpaired = [
        Left("candidate", weight.name, weight.shape, none) for weight in matching.unpaired[0]
    ]
    unpaired += [
        Left("reference", left.weight.name, left.weight.shape, none)
        for left in matching.unpaired[1]
    ]
    return WeightMap(
        pairs,
        tuple(Left(side, weight.name, weight.shape, why) for side, weight, why in matching.left),
        tuple(unpaired),
        matching.dtype,
        {weight.name: weight.tensor for weight in matching.mine},
        {weight.name: weight.tensor for weight in matching.theirs},
        matching.copies,
        {weight.name: weight.owners[0] for weight in matching.mine if weight.computed},
    )
