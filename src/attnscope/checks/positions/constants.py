"""Values of a run that don't depend on the tokens: tables of positions, angles, biases."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor

from attnscope.capture.tape import Tape
from attnscope.checks.subject.subject import Subject

__all__ = ["contents", "free_values", "is_positional", "positional_parts", "varies"]

_SHAPE_ALONE = re.compile(r"(_like$|^new_|^size$|^shape$|^numel$|^dim$)")
_COMPARES = frozenset(
    "eq ne gt lt ge le isnan isinf logical_not logical_and logical_or any all".split()
)
_SAME = 1e-6
"""Relative to the largest entry: roundings of a table in float32."""

_NAME = re.compile(
    r"(^|[._])(pos|pe|wpe|positions?|positional\w*|position_\w+|pos_?(emb|enc|tab|bias|ids)\w*|"
    r"\w*_pos|\w*position_(emb|enc|bias)\w*|rotary\w*|rope\w*|alibi\w*|slopes|inv_freq|freqs\w*|"
    r"rel\w*_(pos|bias|tab)\w*|relative\w*|bias_table|distance\w*)(?=$|[._])",
    re.IGNORECASE,
)
_CLASS = re.compile(r"Position|Rotary|RoPE|Rope|Alibi|ALiBi|Relative|DistanceBias")


def _reached(tape: Tape, starts: set[int]) -> set[int]:
    """Return what depends on the numbers of some values: not on shapes or comparisons alone."""
    found = set(starts)
    for operation in tape.operations:
        if _SHAPE_ALONE.search(operation.name) or operation.name in _COMPARES:
            continue
        if operation.name.endswith("_as"):  # of the second operand the shape alone is taken
            if next(operation.values(), None) in found:
                found.update(operation.defines)
        elif not found.isdisjoint(operation.needs):
            found.update(operation.defines)
    return found


def contents(subject: Subject) -> set[int]:
    """Return the values that depend on the tokens of any sequence."""
    inputs = {subject.input_value(stream.name) for stream in subject.roles.streams}
    return _reached(subject.base.tape, {value for value in inputs if value is not None})


def free_values(subject: Subject) -> set[int]:
    """Return the values that depend on no input at all: parameters, buffers, counted positions."""
    tape = subject.base.tape
    given = {subject.input_value(name) for name, _ in subject.given.tensors()}
    moved = _reached(tape, {value for value in given if value is not None})
    for operation in tape.operations:  # what is compared depends on the inputs all the same
        if operation.name in _COMPARES and not moved.isdisjoint(operation.needs):
            moved.update(operation.defines)
    return set(tape.tensors) - _reached(tape, moved)


def varies(tensor: Tensor, axis: int) -> bool:
    """Return whether a tensor is not the same all along an axis."""
    if tensor.shape[axis] < 2 or not tensor.numel():
        return False
    wide = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    wide = wide.detach().double()
    first = wide.narrow(axis, 0, 1)
    return float((wide - first).abs().max()) > _SAME * max(float(wide.abs().max()), 1e-12)


def is_positional(name: str) -> bool:
    """Return whether a parameter's or buffer's name is that of positions."""
    return bool(_NAME.search(name)) and "positive" not in name


def positional_parts(subject: Subject) -> Iterator[tuple[str, Tensor]]:
    """Iterate over parameters, buffers and tables whose name or module speaks of positions."""
    model = subject.model
    if model is None:
        return
    told: set[str] = set()
    for path, module in model.named_modules():
        by_class = bool(_CLASS.search(type(module).__name__)) and not any(
            True for child in module.children() if any(True for _ in child.children())
        )
        plain = {n: t for n, t in vars(module).items() if isinstance(t, Tensor)}
        for name, tensor in (
            *module.named_parameters(recurse=by_class),
            *module.named_buffers(recurse=by_class),
            *plain.items(),
        ):
            full = f"{path}.{name}" if path else name
            if full in told:
                continue
            told.add(full)
            numbers = tensor.is_floating_point() or tensor.is_complex()
            if numbers and tensor.numel() > 1 and (by_class or is_positional(full)):
                yield full, tensor
