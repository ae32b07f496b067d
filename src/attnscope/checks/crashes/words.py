"""How what PyTorch raised is said in the words of an attention."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from attnscope.checks.crashes.where import Raised

__all__ = ["Kind", "Words", "said"]

Words: TypeAlias = tuple[str, str, str]
"""Kind, sentence, fix."""

Say: TypeAlias = Callable[[re.Match[str], Raised], Words]

Kind: TypeAlias = tuple[str, Say]
"""A pattern of PyTorch's words, and what says them in ours."""

_LONGEST = 200
"""Characters of PyTorch's own words that are quoted."""


def said(kind: str, sentence: str, fix: str) -> Say:
    """Return what says one sentence: {0} is what a pattern met, {1} and on are its groups."""

    def say(match: re.Match[str], _raised: Raised) -> Words:
        return kind, sentence.format(match.group(0)[:_LONGEST], *match.groups()), fix

    return say
