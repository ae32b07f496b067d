"""Additions that change nothing yet: a low-rank product whose one factor is zeros (LoRA)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attnscope.differ.pairing.tensors import Weight


def multiplied_by_zeros(extra: Iterable[Weight]) -> Mapping[str, str]:
    r"""Return why tensors without counterpart change nothing: they are factors of a zero product.

    ΔW = B A with A (rank, inputs), B (outputs, rank) and one of them zeros, as an adapter starts
    (Hu et al. 2021, "LoRA", section 4.1), in either layout; both stand in one module or below it,
    their names differ in one part.

    Args:
        extra: the tensors of one model that have no counterpart.
    """
    matrices = [weight for weight in extra if len(weight.shape) == 2 and not weight.buffer]
    found = {}
    for zero in matrices:
        if zero.constant != 0.0:
            continue
        beside = [
            other
            for other in matrices
            if other.constant != 0.0
            and _apart_in_one(zero.name, other.name)
            and _multiply(zero, other)
        ]
        for other in beside:
            found[other.name] = f"changes nothing: multiplied by zeros, {zero.name}"
            found.setdefault(zero.name, f"changes nothing: zeros that multiply {other.name}")
    return found


def _multiply(left: Weight, right: Weight) -> bool:
    """Whether the two are factors of a product of lower rank than either of its sides."""
    rank = min(*left.shape, *right.shape)
    return left.shape[1] == right.shape[0] == rank or left.shape[0] == right.shape[1] == rank


def _apart_in_one(left: str, right: str) -> bool:
    ours, theirs = left.split("."), right.split(".")
    return len(ours) == len(theirs) and sum(a != b for a, b in zip(ours, theirs, strict=True)) == 1
