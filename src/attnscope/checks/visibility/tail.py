"""Tokens at the end that no other one reads: keys in blocks that leave out the rest."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass, replace

import torch

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.comparing import gap_of
from attnscope.checks.influence import moved
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along, other_tokens
from attnscope.checks.visibility.tokens import by_token

__all__ = ["Tail", "tail_left_out"]


@dataclass(frozen=True, slots=True)
class Tail:
    """A call that reads the first `keys` of `length` tokens, where nothing masks the rest.

    moved: how far the other tokens move when a token that is read is changed.
    """

    call: Call
    keys: int
    length: int
    moved: float
    line: Source


def tail_left_out(subject: Subject, stream: Stream) -> Tail | None:
    """Return the first such call of a model that has no mask among its inputs."""
    length, batch = stream.length(subject.given), stream.batch(subject.given)
    if subject.roles.masks or subject.roles.padding_of(stream) is not None:
        return None
    calls = [
        call
        for call in subject.calls
        if call.queries == length and length // 2 <= call.keys < length and call.batch == batch
    ]
    at = torch.arange(length)
    first = at == 0
    for call in calls[:1]:
        rest = at >= call.keys
        if not _is_read(subject, stream, call, first):
            continue
        if _moves(subject, stream, rest) <= subject.noise < _moves(subject, stream, first):
            moved = _moves(subject, stream, first)
            return Tail(call, call.keys, length, moved, _loop_around(call.source))
    return None


def _is_read(subject: Subject, stream: Stream, call: Call, where: torch.Tensor) -> bool:
    """Return whether keys of a call move with some tokens: those of another sequence don't."""
    value, located = subject.input_value(stream.name), subject.located(call)
    keys = {spot for spot, _ in located.spots.get("k", ())} if located is not None else set()
    if value is None or not keys:  # pieces of them, of blocks
        return len(subject.roles.streams) == 1
    samples = where.expand(stream.batch(subject.given), len(where))
    other = other_tokens(subject, stream, samples).values[stream.name]
    entries = moved(subject.base.tape, {value: other}, keys)
    return any(bool(each.any()) for each in entries.values())


def _moves(subject: Subject, stream: Stream, where: torch.Tensor) -> float:
    """Return how far all other tokens move when some are changed; 0.0 where it can't be told."""
    axes = along(subject, subject.output, stream)
    if axes[1] is None:
        return 0.0
    changed = other_tokens(subject, stream, where.expand(stream.batch(subject.given), len(where)))
    try:
        gap = gap_of(subject.output, subject.main_output(changed))
    except Skipped:
        return 0.0
    return float(by_token(gap, axes[0], axes[1])[:, ~where].max())


def _loop_around(line: Source) -> Source:
    """Return the line of the innermost loop around a line, which says where the blocks lie."""
    try:
        tree = ast.parse("".join(linecache.getlines(line.file)))
    except SyntaxError:
        return line
    around = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.While)
        and node.lineno <= line.line <= (node.end_lineno or 0)
    ]
    if not around:
        return line
    text = linecache.getline(line.file, max(around)).strip()
    return replace(line, line=max(around), code=text)
