"""What speaks of positions by its name: tables, angles, biases; and along which axes they vary."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor

from attnscope.checks.subject.subject import Subject

__all__ = ["is_positional", "positional_parts", "varies"]

_SAME = 1e-6
"""Relative to the largest entry: roundings of a table in float32."""

_NAME = re.compile(
    r"(^|[._])(pos|pe|wpe|positions?|positional\w*|position_\w+|pos_?(emb|enc|tab|bias|ids)\w*|"
    r"\w*_pos|\w*position_(emb|enc|bias)\w*|rotary\w*|rope\w*|alibi\w*|slopes|inv_freq|freqs\w*|"
    r"rel\w*_(pos|bias|tab)\w*|relative\w*|bias_table|distance\w*)(?=$|[._])",
    re.IGNORECASE,
)
_BY_PLACE = re.compile(
    r"(^|[._])pos(ition)?_?(wise|ffn?|feed|mlp)|^PositionWise|positive", re.IGNORECASE
)
"""Feed-forward layers, which do the same at every place."""

_CLASS = re.compile(r"Position|Rotary|RoPE|Rope|Alibi|ALiBi|Relative|DistanceBias")


def varies(tensor: Tensor, axis: int) -> bool:
    """Return whether a tensor is not the same all along an axis."""
    if tensor.shape[axis] < 2 or not tensor.numel():
        return False
    wide = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    wide = wide.detach().double()
    first = wide.narrow(axis, 0, 1)
    return float((wide - first).abs().max()) > _SAME * max(float(wide.abs().max()), 1e-12)


def is_positional(name: str) -> bool:
    """Return whether a parameter's or buffer's name is that of positions."""
    return bool(_NAME.search(name)) and not _BY_PLACE.search(name)


def positional_parts(subject: Subject) -> Iterator[tuple[str, Tensor]]:
    """Iterate over parameters, buffers and tables whose name or module speaks of positions."""
    model = subject.model
    if model is None:
        return
    told: set[str] = set()
    for path, module in model.named_modules():
        kind = type(module).__name__
        by_class = (
            bool(_CLASS.search(kind))
            and not _BY_PLACE.search(kind)
            and not any(any(True for _ in child.children()) for child in module.children())
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
