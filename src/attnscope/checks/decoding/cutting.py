"""The inputs of one step: its tokens, what lies along them, and how many came before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import Parameter
from typing import Any

import torch
from torch import Tensor

from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Roles, Stream

__all__ = ["counted", "cuts_masks", "step_of"]

_KEEPS = re.compile(r"mask|^keep$|^pad")

_COUNTS = re.compile(
    r"^(start|cur(rent)?|input|cache|index|position|pos|rope|past|seq|token)_?"
    r"(pos(ition)?|offset|start|index|idx|len(gth)?)$|"
    r"^(offset|pos|position|start|seen|past_seen|n_past|num_past|past_key_values_length)$"
)
"""Names of how many tokens came before a step: `start_pos` of Llama's own code, and the like."""

_PLACES = frozenset({"input_pos", "cache_position"})
"""Names of the places of a step's tokens, which say at the same time that a cache is used."""


def step_of(
    inputs: Given, roles: Roles, stream: Stream, start: int, stop: int, *, own_masks: bool = False
) -> Given:
    """Return the inputs of some tokens.

    Masks of keys reach from the first token on, or (own_masks) over the step's tokens alone.
    """
    others = {each.name for each in roles.streams}

    def cut(name: str, tensor: Tensor) -> Tensor:
        if name == stream.name:
            return tensor.narrow(stream.sequence_axis or 0, start, stop - start)
        axes = sorted(a for a, run in roles.length_axes.get(name, {}).items() if run == stream.name)
        keeps = _is_kept(name) and name not in others and not own_masks
        for axis in axes:
            all_before = keeps and axis == axes[-1]
            tensor = tensor.narrow(axis, *((0, stop) if all_before else (start, stop - start)))
        return tensor

    return inputs.mapped(cut)


def cuts_masks(inputs: Given, roles: Roles, stream: Stream) -> bool:
    """Return whether there is a mask along the tokens, which a step could be given in two ways."""
    return any(
        _is_kept(name) and name != stream.name and stream.name in axes.values()
        for name, axes in roles.length_axes.items()
        if name in inputs.values
    )


def _is_kept(name: str) -> bool:
    return bool(_KEEPS.search(name.lower()))


def counted(inputs: Given, start: int, stop: int, *, keeps_itself: bool) -> dict[str, Any]:
    """Return the arguments that say how many tokens came before a step, as they are there.

    keeps_itself: the module keeps its cache, so that an argument that says where the tokens go
    is what turns it on.
    """
    return dict(_counted(inputs, start, stop, keeps_itself=keeps_itself))


def _counted(
    inputs: Given, start: int, stop: int, *, keeps_itself: bool
) -> Iterator[tuple[str, Any]]:
    for parameter in inputs.parameters:
        name = parameter.name
        begins = inputs.values.get(
            name, None if parameter.default is Parameter.empty else parameter.default
        )
        if begins is None and keeps_itself and name in _PLACES and parameter.default is None:
            yield name, torch.arange(start, stop)
        elif begins is None and keeps_itself and name == "start_pos":
            yield name, start
        elif _COUNTS.search(name.lower()) and _is_count(begins):
            yield name, begins + start


def _is_count(value: Any) -> bool:
    if isinstance(value, Tensor):
        whole = not value.is_floating_point() and value.dtype != torch.bool
        return whole and bool((value == value.flatten()[:1]).all()) and value.dim() < 2
    return isinstance(value, int) and not isinstance(value, bool)
