"""Positions inside attention: what turns q and k, and what is added to the scores."""

from attnscope.nn.positions.alibi import ALiBi, alibi_slopes
from attnscope.nn.positions.protocol import Positions
from attnscope.nn.positions.rotary import Rotary
from attnscope.nn.positions.shaw import ShawKeys
from attnscope.nn.positions.t5 import T5Bias, t5_buckets

__all__ = ["ALiBi", "Positions", "Rotary", "ShawKeys", "T5Bias", "alibi_slopes", "t5_buckets"]
