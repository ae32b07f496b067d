"""NaN that begins in rows which see no key, and reaches rows that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnscope.differ.result import FirstDifference
from attnscope.differ.sides.aligning import Pair
from attnscope.explain import Explanation

__all__ = ["from_empty_rows"]


def from_empty_rows(
    first: FirstDifference, pairs: Sequence[Pair], remains: float
) -> FirstDifference:
    """Return where the candidate's NaN begins: at the first context that the reference has whole.

    remains: what is left at the output with the reference's contexts in the place of these.
    """
    for pair in pairs:
        ours, theirs = pair.candidate.value("context"), pair.reference.value("context")
        if ours.shape != theirs.shape:
            continue
        broken = ours.isnan() & theirs.isfinite()
        if not bool(broken.any()):
            continue
        index = tuple(int(at) for at in broken.nonzero()[0])
        text = (
            f"a query that sees no key becomes NaN (sample {index[0]}, query {index[2]}), where "
            "the reference has a number; NaN goes on into the keys and values of real rows"
        )
        call = pair.candidate.calls[0] if pair.candidate.calls else None
        return replace(
            first,
            stage="context",
            call=pair.number,
            module=call.module if call is not None else "",
            source=call.source if call is not None else None,
            index=index,
            explanation=Explanation("empty-rows", text, remains),
        )
    return first
