"""The error that says which tensors found no counterpart, what comes closest, what to write."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from attnscope.differ.pairing.coverage import Uncovered
from attnscope.differ.pairing.tensors import Weight
from attnscope.errors import InputError

_MOST = 8  # of each side are listed, the rest counted


def unpaired_error(
    candidate: Sequence[Weight], reference: Sequence[Uncovered], reasons: Sequence[str] = ()
) -> InputError:
    """Return the error for tensors of both sides that found no counterpart.

    Args:
        candidate: tensors of the candidate.
        reference: tensors, or rows of them, of the reference.
        reasons: what stands against a pair that seems near.
    """
    sides = [
        _listed("the candidate's", [f"{weight.name} {weight.shape}" for weight in candidate]),
        _listed("the reference's", [str(left) for left in reference]),
    ]
    found = " and ".join(side for side in sides if side) + " found no counterpart"
    close = [near for weight in candidate[:_MOST] if (near := _near(weight, reference))]
    if close:
        found += f" (nearest: {'; '.join(close)})"
    if reasons:
        found += f" ({'; '.join(reasons)})"
    return InputError("pairing the weights", found, _todo(candidate, reference))


def _listed(side: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{side} {', '.join(names[:_MOST])}{more}"


def _near(weight: Weight, reference: Sequence[Uncovered]) -> str:
    """Return the proposal that comes closest: sizes first, then letters."""
    names = [left.weight.name for left in reference if left.weight.shape == weight.shape]
    names = names or [left.weight.name for left in reference]
    close = difflib.get_close_matches(weight.name, names, n=2, cutoff=0.3)
    return f"{weight.name} from {' or '.join(close)}" if close else ""


def _todo(candidate: Sequence[Weight], reference: Sequence[Uncovered]) -> str:
    """Return what to write, with the names at hand."""
    if candidate and reference:
        entry = (
            f'"{candidate[0].name}": "{reference[0].weight.name}"'
            f' (or {{"from": "{reference[0].weight.name}", "rows": [a, b], "transpose": true}},'
            " or a list of these)"
        )
    elif candidate:
        entry = f'"{candidate[0].name}": null (left as it is; or a number)'
    else:
        names = [f'"{left.weight.name}"' for left in reference]
        more = ", ..." if len(names) > _MOST else ""
        entry = f'"ignore": [{", ".join(names[:_MOST])}{more}]'
    return f'say it with map={{{entry}}} or --weights map=FILE, or use weights="keep"'
