"""What a TARGET means: from the words on the command line to a model with inputs that run.

``resolve`` reads every form::

    path/file.py:name   package.module:name   path/file.py   path/to/checkpoint/
    arch:NAME           sample:minilm         sample:smollm2

and returns a ``Target``: the model, inputs that its forward accepts, what its author expects of
it, and the tokenizer where there is one. ``both`` reads the two sides of a comparison, which may
be plain functions of (q, k, v, …) as well. Nothing is downloaded and no pickle is ever opened.
"""

from __future__ import annotations

from attnscope.checks.expect import parse_expect, read_expect
from attnscope.targets.blame import place
from attnscope.targets.files import importing_from
from attnscope.targets.implementation import Both, Implementation, both
from attnscope.targets.resolve import Wishes, resolve
from attnscope.targets.samples import SAMPLES
from attnscope.targets.target import Target

__all__ = [
    "SAMPLES",
    "Both",
    "Implementation",
    "Target",
    "Wishes",
    "both",
    "importing_from",
    "parse_expect",
    "place",
    "read_expect",
    "resolve",
]
