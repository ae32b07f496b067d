"""Follows the axes of tensors through layout operations, on sizes alone.

``fresh`` starts at a tensor, ``follow`` takes one operation's arguments to its output, and
``contract`` says which axes a product pairs. Then an axis of scores can be read: the queries are
axis 1 of that projection's output, the heads were split off its features, these heads are copies.
"""

from attnscope.capture.layout.algebra import (
    NO_ORIGIN,
    Atom,
    Axis,
    Layout,
    fresh,
    merge,
    same,
    split_common,
)
from attnscope.capture.layout.contraction import CONTRACTIONS, Contraction, contract, operands
from attnscope.capture.layout.operation import Unknown
from attnscope.capture.layout.rules import RULES, bare_name, follow

__all__ = [
    "CONTRACTIONS",
    "NO_ORIGIN",
    "RULES",
    "Atom",
    "Axis",
    "Contraction",
    "Layout",
    "Unknown",
    "bare_name",
    "contract",
    "follow",
    "fresh",
    "merge",
    "operands",
    "same",
    "split_common",
]
