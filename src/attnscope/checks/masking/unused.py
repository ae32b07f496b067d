"""Arguments of the functions around attention that no line of theirs reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.source import Source
from attnscope.checks.caller import users_line
from attnscope.checks.lines import is_installed
from attnscope.checks.masking.biases import HIGH
from attnscope.checks.masking.frames import Frame, frames_at, unread
from attnscope.checks.masking.lines import frames_of, line_of_softmax
from attnscope.checks.masking.seen import Seen, seen_by
from attnscope.checks.subject.names import is_lengths, is_mask
from attnscope.checks.subject.subject import Subject

__all__ = ["Unused", "unused_arguments"]

_NUMBERS = re.compile(r"^window(_size)?$|(soft|logit)_?cap|^sinks?$|^(is_)?causal$")
_OF_SCORES = re.compile(r"(soft|logit)_?cap|(^|_)sinks?$")
"""What nobody but the function that computes the scores can apply."""
_SEQLENS = re.compile(r"seqlens?|cu_len")
_MOST = 6
"""Lines with attention whose functions are looked at."""


@dataclass(frozen=True, slots=True)
class Unused:
    """One argument that a function takes and never reads; value: what it was given, if anything.

    source: the line of the softmax, which does without it; of the caller, where **kwargs take it.
    """

    name: str
    function: str
    source: Source
    seen: Seen
    value: str | None


def unused_arguments(subject: Subject) -> Iterator[Unused]:
    """Iterate over masks, lengths, windows that a function around attention never reads.

    Each is told of at the first attention with as many keys as it speaks of, or at the first.
    """
    found: dict[tuple[str, str], tuple[Unused, bool]] = {}
    lines: set[tuple[str, int]] = set()
    for call in subject.calls:
        seen = seen_by(subject, call)
        line = line_of_softmax(seen)
        if (line.file, line.line) in lines or len(lines) == _MOST:
            continue
        lines.add((line.file, line.line))
        for frame, name, value, source in _around(seen, line):
            fits, key = _fits(seen, value), (name, frame.name)
            is_better = key not in found or (fits and not found[key][1])
            if is_better and not _is_kept(seen, value):
                at = users_line(subject, call.module, source)
                found[key] = Unused(name, frame.name, at, seen, _shown(value)), fits
    yield from (unused for unused, _ in found.values())


def _around(seen: Seen, line: Source) -> Iterator[tuple[Frame, str, Any, Source]]:
    """Iterate over what functions around the softmax never read; around q·k, what they swallow."""
    for frame in frames_of(seen):
        for name in _told(frame):
            yield frame, name, frame.arguments[name], line
    product = seen.course.product if seen.course is not None else None
    inner = frames_at(seen.subject, product) if product is not None else ()
    for frames in (frames_of(seen), inner):
        for at, frame in enumerate(frames):
            for name, value in _swallowed(frame):
                caller = next((each for each in frames[at + 1 :] if each.own), None)
                source = caller.source() if caller is not None else line
                yield frame, name, value, source


def _fits(seen: Seen, value: Any) -> bool:
    """Return whether a mask is as long as the keys of a call; other arguments fit any."""
    is_table = isinstance(value, Tensor) and value.dim() > 1
    return not is_table or bool(value.shape[-1] == seen.call.keys)


def _is_kept(seen: Seen, value: Any) -> bool:
    """Return whether the call hides just the keys that a mask speaks of, by another way."""
    hidden, size = seen.effective, (seen.call.batch, seen.call.keys)
    if not isinstance(value, Tensor) or hidden is None or value.numel() != size[0] * size[1]:
        return False
    columns, given = hidden.all(1).all(1), value.detach().reshape(size) != 0
    return torch.equal(columns, given) or torch.equal(columns, ~given)


def _swallowed(frame: Frame) -> Iterator[tuple[str, Any]]:
    """Iterate over caps and sinks that vanish in a **kwargs which is never read."""
    if not frame.own or is_installed(frame.file) or frame.gathered not in unread(frame):
        return
    for name, value in frame.further.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if _OF_SCORES.search(name.lower()) and (number or isinstance(value, Tensor)):
            yield name, value


def _told(frame: Frame) -> Iterator[str]:
    """Iterate over arguments that say something, or would, and are never read."""
    if not frame.own or is_installed(frame.file):
        return
    candidates = [
        n
        for n, v in frame.arguments.items()
        if _says_something(n.lower(), v) or (v is None and (is_mask(n) or is_lengths(n)))
    ]
    if candidates:
        never = unread(frame)
        yield from (name for name in candidates if name in never and not name.startswith("_"))


def _says_something(name: str, value: Any) -> bool:
    if isinstance(value, Tensor):
        if value.layout != torch.strided or not value.numel() or value.is_complex():
            return False
        if _SEQLENS.search(name):
            return value.numel() > 2
        if is_lengths(name):
            return value.dim() == 1 and bool((value != value.max()).any())
        if is_mask(name):
            flat = torch.unique(value.detach())
            return 1 < len(flat) <= 2 and not bool((flat.double().abs() >= HIGH).all())
        return False
    if isinstance(value, bool):
        return value and "causal" in name
    return isinstance(value, (int, float)) and bool(_NUMBERS.search(name))


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    return repr(value)
