"""Single tokens of what a call's projections receive are changed, to see where each of them lands.

Splitting heads and merging them again are rearrangements, and a wrong one has the right shape. So
every token gets a code of its own, by being changed alone: the entries of q, k, v that move are
where it landed. Likewise each position of the context is changed alone, on the way out.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.capture.trail import LAYOUT
from attnscope.checks.course import representatives, way_out
from attnscope.checks.influence import differs
from attnscope.checks.probe import probe
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located
from attnscope.errors import AttnscopeError

__all__ = ["Coded", "Landing", "Side", "Token", "coded", "heads_of", "laid_out"]

Side: TypeAlias = Literal["q", "k", "v", "merged", "out"]
Token: TypeAlias = tuple[int, int]
"""(sample, position) of a token."""

_MOST_TOKENS = 6
"""Tokens of one sample that are coded: enough for a pattern, however long the sequence is."""


@dataclass(frozen=True, slots=True, eq=False)
class Landing:
    """Where one token landed.

    token: (sample, position) in what the projection receives. entries: boolean, (batch, heads,
    positions) of q, k or v: whether any feature there moved. For the way out ("out") token is
    (batch, position) of the context, and entries are (heads, samples, positions): which token of
    the output moves when one head's context there is changed; likewise for what the output
    projection receives ("merged").

    count: how many entries moved, features told apart; of one head, on the way out. whole: how many
    there are of one position.
    """

    token: Token
    entries: Tensor
    count: int
    whole: int


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """The landings of one call, by side; sides of which nothing is known are left out.

    sizes: (samples, positions) of what each projection receives; axes: where these run there.
    slabs: sides whose tokens have axes of their own there (pairs of points, frames of a video).
    """

    call: Call
    landings: Mapping[Side, tuple[Landing, ...]] = field(default_factory=dict)
    sizes: Mapping[Side, tuple[int, int]] = field(default_factory=dict)
    axes: Mapping[Side, tuple[int | None, int]] = field(default_factory=dict)
    slabs: frozenset[Side] = frozenset()


@probe
def coded(subject: Subject) -> tuple[Coded, ...]:
    """Code the tokens of one call of each kind that lies on the tape of the base run."""
    return tuple(_code_of(subject, located) for located in representatives(subject))


def _code_of(subject: Subject, located: Located) -> Coded:
    landings: dict[Side, tuple[Landing, ...]] = {}
    sizes: dict[Side, tuple[int, int]] = {}
    known: dict[Side, tuple[int | None, int]] = {}
    for side in _INWARD:
        received = located.received.get(side)
        axes = _axes_of(subject, received) if received is not None else None
        if received is None or axes is None:
            continue
        known[side], sizes[side] = axes, _sizes(subject, received, axes)
        with contextlib.suppress(*_CANT):
            landings[side] = tuple(_inward(subject, located, side, received, axes))
    ways: dict[Side, int | None] = {
        "merged": _merged_value(subject, located),
        "out": located.output,
    }
    for side, value in ways.items():
        with contextlib.suppress(*_CANT):
            landings[side] = tuple(_outward(subject, located, value))
    made = {side: found for side, found in landings.items() if found}
    slabs = {side for side in known if _is_of_slabs(subject, located.received[side])}
    return Coded(located.call, made, sizes, known, frozenset(slabs))


def _is_of_slabs(subject: Subject, value: int) -> bool:
    """Return whether more than features is left beside samples and tokens, and was from the start.

    Features that were taken apart into heads before a projection were one axis once.
    """
    tape = subject.base.tape
    while (operation := tape.maker.get(value)) is not None and operation.name in LAYOUT:
        if tape.tensors[value].dim() <= _VECTORS:
            return False
        value = next(operation.values())
    return tape.tensors[value].dim() > _VECTORS


_VECTORS = 3
"""Axes of (batch, tokens, features)."""


_INWARD: tuple[Side, ...] = ("q", "k", "v")

_CANT = (AttnscopeError, RuntimeError, IndexError, KeyError, TypeError, ValueError)
"""What running a part of a model by itself raises where that can't be done."""


def _inward(
    subject: Subject, located: Located, side: str, received: int, axes: tuple[int | None, int]
) -> Iterator[Landing]:
    """Change one token at a time of what a projection receives."""
    tape = subject.base.tape
    spots = located.spots[side]
    wanted = [value for value, _ in spots]
    before = tape.run([received, *wanted], wide=True)
    plain = located.read(side, before)
    for token in _tokens(_sizes(subject, received, axes)):
        given = _changed(before[received], axes, token)
        after = located.read(side, tape.run(wanted, {received: given}, wide=True))
        entries = differs(plain, after)
        whole = plain.shape[1] * plain.shape[-1]
        yield Landing(token, entries.any(-1), int(entries.sum()), whole)


def _merged_value(subject: Subject, located: Located) -> int | None:
    """Return what the layout operations behind the context make of it, before any other.

    None: nothing is laid out, or the size of its tokens' axis is also that of another one, and no
    linear layer reads it, which has its features last.
    """
    operations = list(way_out(subject.base.tape, located))
    value = operations[-1].defines[0] if operations else None
    axes = _axes_of(subject, value) if value is not None else None
    if value is None or axes is None:
        return None
    tape = subject.base.tape
    if axes == _PLACES or any(user.name == "linear" for user in tape.users.get(value, [])):
        return value
    shape = tape.tensors[value].shape
    return value if shape.count(shape[axes[1]]) == 1 else None


def _outward(subject: Subject, located: Located, output: int | None) -> Iterator[Landing]:
    """Change one position of one head of the context at a time, to see what moves of a value."""
    axes = None if output is None else _axes_of(subject, output)
    if output is None or axes is None:
        return
    tape, parts = subject.base.tape, heads_of(subject, located)
    values = [value for part in parts for value, _ in part.spots["context"]]
    before = tape.run([output, *values], wide=True)
    plain = located.read("context", before)
    for token in _tokens((plain.shape[0], plain.shape[2])):
        rows, count = [], 0
        for part, head in itertools.islice(_single_heads(parts, before), _MOST_TOKENS):
            changed = part.read("context", before).clone()
            row = changed[token[0], head, token[1]]
            row += 1.0 + row.abs().max()
            after = tape.run([output], part.write("context", changed), wide=True)[output]
            entries = differs(before[output], after)
            rows.append(_by_token(entries, axes))
            count = max(count, int(entries.sum()))
        yield Landing(token, torch.stack(rows), count, plain.shape[-1])


def _single_heads(
    parts: tuple[Located, ...], values: Mapping[int, Tensor]
) -> Iterator[tuple[Located, int]]:
    for part in parts:
        yield from ((part, head) for head in range(part.read("context", values).shape[1]))


def heads_of(subject: Subject, located: Located) -> tuple[Located, ...]:
    """Return the calls that are heads of one attention: a loop makes a call of each.

    They read the same tokens at the same positions (blocks of queries don't), and are merged.
    """
    received, tape = located.received.get("q"), subject.base.tape
    axes = _axes_of(subject, received) if received is not None else None
    others = [each for each in subject.base.located if _may_be_heads(each, located)]
    if received is None or axes is None or len(others) < 2:
        return (located,)
    wanted = [value for each in others for value, _ in each.spots["q"]]
    before = tape.run([received, *wanted], wide=True)
    token = (0, min(1, _sizes(subject, received, axes)[1] - 1))
    after = tape.run(wanted, {received: _changed(before[received], axes, token)}, wide=True)
    moved = {id(each): _landing(each, before, after) for each in others}
    own = moved[id(located)]
    return tuple(each for each in others if torch.equal(moved[id(each)], own))


def _landing(located: Located, before: Mapping[int, Tensor], after: Mapping[int, Tensor]) -> Tensor:
    return differs(located.read("q", before), located.read("q", after)).any(-1)


def _may_be_heads(each: Located, located: Located) -> bool:
    same = each.output == located.output and each.received.get("q") == located.received.get("q")
    return same and each.shape == located.shape and "q" in each.spots and "context" in each.spots


def _tokens(sizes: tuple[int, int]) -> Iterator[Token]:
    """Iterate over the first tokens of the first two samples."""
    samples, length = sizes
    yield from itertools.product(range(min(samples, 2)), range(min(length, _MOST_TOKENS)))


def _changed(tensor: Tensor, axes: tuple[int | None, int], token: Token) -> Tensor:
    changed = tensor.clone()
    laid = laid_out(changed, axes)
    row = laid if axes[0] is None else laid.select(axes[0], token[0])
    at = axes[1] - (axes[0] is not None and axes[0] < axes[1])
    position = row.select(at, token[1])
    generator = torch.Generator().manual_seed(token[1] + 1)
    noise = torch.randn(position.shape, generator=generator, dtype=torch.float64)
    position += noise * (1.0 + position.abs().max())
    return changed


def _by_token(entries: Tensor, axes: tuple[int | None, int]) -> Tensor:
    """Return (samples, positions): whether any feature moved there."""
    laid = laid_out(entries, axes)
    if axes[0] is None:
        return laid.movedim(axes[1], 0).flatten(1).any(-1)[None]
    return laid.movedim((axes[0], axes[1]), (0, 1)).flatten(2).any(-1)


def laid_out(tensor: Tensor, axes: tuple[int | None, int]) -> Tensor:
    """Return a map (batch, features, height, width) with its places in one axis."""
    return tensor.flatten(2) if axes == _PLACES and tensor.dim() == 4 else tensor


_PLACES = (0, -1)
"""Axes of samples and tokens of what a convolution reads or makes."""


def _sizes(subject: Subject, value: int, axes: tuple[int | None, int]) -> tuple[int, int]:
    shape = laid_out(subject.base.tape.tensors[value], axes).shape
    return (1 if axes[0] is None else shape[axes[0]]), shape[axes[1]]


def _axes_of(subject: Subject, value: int) -> tuple[int | None, int] | None:
    """Return the axes of samples and tokens of a stage around a call, by their sizes."""
    shape = tuple(subject.base.tape.tensors[value].shape)
    if _is_of_convolution(subject, value, f"conv{len(shape) - 2}d"):
        return _PLACES
    for stream in subject.roles.streams:
        found = _axes_in(shape, stream, subject)
        if found is not None:
            return found
    return _usual_axes(shape, subject)


def _is_of_convolution(subject: Subject, value: int, name: str) -> bool:
    """Return whether a convolution reads or made a value: (batch, features, places …)."""
    tape = subject.base.tape
    around = [tape.maker.get(value), *tape.users.get(value, [])]
    return any(operation is not None and operation.name == name for operation in around)


def _usual_axes(shape: tuple[int, ...], subject: Subject) -> tuple[int | None, int] | None:
    """Return the axes of tokens that the model made itself: (rows, tokens, features) or turned."""
    main = subject.roles.main
    if main is None or len(shape) != 3:
        return None
    batch = main.batch(subject.given)
    return (1, 0) if shape[1] == batch and shape[0] != batch else (0, 1)


def _axes_in(
    shape: tuple[int, ...], stream: Stream, subject: Subject
) -> tuple[int | None, int] | None:
    batch, length = stream.batch(subject.given), stream.length(subject.given)
    if len(shape) < 2 or not length:
        return None
    if stream.batch_axis is None:
        return (None, 0) if shape[0] == length else None
    usual = (stream.batch_axis, stream.sequence_axis or 0)
    if len(shape) > max(usual) and (shape[usual[0]], shape[usual[1]]) == (batch, length):
        return usual
    other = usual[::-1]
    if len(shape) > max(other) and (shape[other[0]], shape[other[1]]) == (batch, length):
        return other
    return None
