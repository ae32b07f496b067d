"""Tiny, randomly initialised models of any architecture that transformers knows.

`architectures` names them, `build` makes one together with inputs that its forward accepts.
"""

from __future__ import annotations

from attnscope.targets.architectures.build import Built, architectures, build

__all__ = ["Built", "architectures", "build"]
