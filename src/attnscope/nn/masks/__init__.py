"""Masks as small objects: each says who may attend to whom, True = may attend.

What is the same for every input (causal, window) goes to the constructor of
`MultiheadAttention`; what belongs to one batch (padding, documents) to its `forward`.
"""

from attnscope.nn.masks.counting import Causal, Prefix, Window, is_causal
from attnscope.nn.masks.protocol import Counted, Mask, Places, Visible, holds
from attnscope.nn.masks.tables import Documents, Padding

__all__ = ["Causal", "Counted", "Documents", "Mask", "Padding", "Places", "Prefix", "Visible"]
__all__ += ["Window", "holds", "is_causal"]
