"""The kinds of change inside an attention, in the order they are tried."""

from __future__ import annotations

from attnscope.explain.kinds.inside import (
    biases,
    emptyrows,
    fills,
    halves,
    kvheads,
    masks,
    normalisers,
    scale,
    sinks,
    softcap,
    weights,
)
from attnscope.explain.kinds.inside.behind import behind
from attnscope.explain.kinds.inside.evaluating import Edits, kind
from attnscope.explain.kinds.inside.meeting import (
    other_kv_heads,
    permuted_heads,
    transposed_weights,
)
from attnscope.explain.kinds.inside.mirror import from_both_sides
from attnscope.explain.kinds.inside.together import together

__all__ = ["KINDS_INSIDE", "TWO_FAULTS"]

_EDITS: tuple[tuple[Edits, str], ...] = (
    (scale.edits, "scores"),
    (softcap.edits, "scores"),
    (emptyrows.empty_rows, "scores"),
    (fills.after_softmax, "scores"),
    (masks.another_window, "scores"),
    (masks.edits, "scores"),
    (fills.as_bias, "scores"),
    (fills.fills, "scores"),
    (biases.edits, "scores"),
    (sinks.edits, "weights"),
    (normalisers.axes, "weights"),
    (normalisers.functions, "weights"),
    (kvheads.edits, "raw_scores"),
    (weights.factor, "weights"),
    (weights.transposed, "weights"),
    (weights.dropped, "weights"),
    (halves.halves, "weights"),
    (masks.another, "scores"),
    (biases.another, "scores"),
)
"""What happens inside the attention: the edits, and the stage at which they begin to show."""

_NEAREST = (fills.fills, emptyrows.empty_rows)
"""Of these, two that make the stage agree differ in a number alone."""

_ONE = (*_NEAREST, biases.edits, sinks.edits, kvheads.edits, normalisers.axes)
"""Of these, a second one that makes the stage agree would say nothing new."""

KINDS_INSIDE = (
    *(
        from_both_sides(kind(edits, acts_at, one=edits in _ONE, nearest=edits in _NEAREST))
        for edits, acts_at in _EDITS
    ),
    behind,
    other_kv_heads,
    permuted_heads,
    transposed_weights,
)

TWO_FAULTS = from_both_sides(together(_EDITS))
"""Tried last: two edits that make the stage agree only together."""
