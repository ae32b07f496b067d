"""The kinds of change around an attention, in the order they are tried.

Edits of the reference come before the same edits of the candidate: they say what the candidate
does. Where several kinds are the same arithmetic, the more particular one comes first.
"""

from __future__ import annotations

from attnscope.explain.kinds.around.factors import embedding_scale, factor
from attnscope.explain.kinds.around.layout import (
    heads_by_view,
    heads_merged_otherwise,
    merged_by_view,
)
from attnscope.explain.kinds.around.norm_sorts import norm_eps, norm_kind, norm_width
from attnscope.explain.kinds.around.norms import (
    norm_missing,
    norm_moved,
    norm_turned,
    unnormed_input,
)
from attnscope.explain.kinds.around.parameters import (
    norm_parameters,
    projection_bias,
    weight_transposed,
)
from attnscope.explain.kinds.around.positions import (
    position_table,
    positions_missing,
    positions_shifted,
)
from attnscope.explain.kinds.around.projections import projections
from attnscope.explain.kinds.around.residuals import (
    activation,
    dropout_around,
    piece_missing,
    residual,
    rewired,
)
from attnscope.explain.kinds.around.rotary import rotary
from attnscope.explain.kinds.around.sides import (
    AROUND,
    BETWEEN,
    Edits,
    Kind,
    on_candidate,
    on_reference,
)
from attnscope.explain.kinds.around.streams import other_stream

__all__ = ["KEYS_AROUND", "KINDS_AROUND"]

KEYS_AROUND = frozenset(
    "activation dropout embedding-scale factor heads-by-view heads-permuted k-for-v merge-by-view "
    "norm-eps norm-kind norm-missing norm-place norm-weight piece-missing position-table "
    "positions-missing positions-shifted projection-bias q-k-swapped qk-norm residual-doubled "
    "residual-missing residual-place residual-sign rotary-axis rotary-base rotary-direction "
    "rotary-extra rotary-missing rotary-on-v rotary-pairing rotary-scaling rotary-share "
    "rotary-twice split-order weight-transposed wrong-stream".split()
)
"""The keys of all changes that these kinds propose."""

_EDITS: tuple[tuple[Edits, tuple[str, ...]], ...] = (
    (dropout_around, AROUND),
    (projection_bias, AROUND),
    (weight_transposed, AROUND),
    (positions_shifted, BETWEEN),
    (positions_missing, BETWEEN),
    (factor, BETWEEN),  # of a branch before a norm: nearly a multiple of the residual
    (residual, BETWEEN),
    (embedding_scale, BETWEEN),
    (norm_missing, AROUND),
    (norm_parameters, AROUND),
    (norm_eps, AROUND),
    (norm_kind, AROUND),
    (norm_moved, AROUND),
    (activation, BETWEEN),
    (rewired, BETWEEN),
    (piece_missing, BETWEEN),
)

KINDS_AROUND: tuple[Kind, ...] = (
    projections,
    rotary,
    heads_by_view,
    merged_by_view,
    heads_merged_otherwise,
    position_table,
    norm_turned,
    norm_width,
    unnormed_input,
    other_stream,
    *(kind(edits, stages) for edits, stages in _EDITS for kind in (on_reference, on_candidate)),
)
"""What happens around an attention: projections, positions, layout, norms, residuals."""
