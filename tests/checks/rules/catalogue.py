"""Every code that the outside of attnscope fixes, with its name and its usual severity."""

from __future__ import annotations

_SEVERITIES = {"E": "error", "W": "warning", "N": "note"}

_LINES = """
AS101 E softmax-axis
AS102 E batch-attention
AS103 E head-scramble
AS104 E kv-head-map
AS105 E width-mismatch
AS106 E kernel-layout
AS107 E wrong-stream
AS201 E future-leak
AS202 E padding-leak
AS203 W empty-row
AS204 E mask-after-softmax
AS205 E mask-polarity
AS206 E causal-alignment
AS207 E mask-fill
AS208 W ignored-argument
AS209 E document-leak
AS210 E window
AS211 E mask-broadcast
AS212 W hidden-context
AS301 E scale
AS302 W saturated
AS303 W score-growth
AS304 W softmax-precision
AS305 E coupled-scale
AS306 E config-ignored
AS401 N dead-head
AS402 N duplicate-heads
AS403 W entropy-collapse
AS404 N sink-head
AS405 N diagonal-head
AS501 N no-position
AS502 E position-axis
AS503 E rotary
AS504 E padded-positions
AS505 E position-table
AS601 E cache-mismatch
AS701 E dropout-in-eval
AS702 W dropout-place
AS801 W backend-disagreement
AS802 E non-finite
AS803 E returned-weights
AS901 W init-scale
AS902 W no-gradient
AS903 W idle-parameter
AS904 W residual-norm
AS905 W unloaded-parameter
"""

CATALOGUE = tuple(
    (code, name, _SEVERITIES[letter])
    for code, letter, name in (line.split() for line in _LINES.split("\n") if line)
)
"""Code, name, severity."""
