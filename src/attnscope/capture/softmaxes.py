"""Accounts for every softmax: part of an attention call, or something else with its name."""

from __future__ import annotations

from attnscope.capture.provenance import Node


class Softmaxes:
    """Softmaxes seen and those claimed by attention calls."""

    def __init__(self) -> None:
        """Start with none."""
        self._claimed: set[int] = set()

    def claim(self, nodes: list[Node]) -> None:
        """Count the softmaxes among `nodes` as attention."""
        self._claimed.update(id(node) for node in nodes if "softmax" in node.name)
