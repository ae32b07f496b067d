"""The evidence: calls, their recipes, the trace they form, and how it is kept."""

from attnscope.calls.call import Call
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.calls.source import Source
from attnscope.calls.store import load
from attnscope.calls.trace import Other, Trace, Unseen

__all__ = ["Call", "Mask", "Other", "Recipe", "Source", "Trace", "Unseen", "load"]
