"""Later tokens are changed: in a causal model, nothing before them may move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from attnscope.checks.attributes import attribute
from attnscope.checks.comparing import gap_of
from attnscope.checks.influence import differs
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along, other_tokens
from attnscope.checks.visibility.prefix import prefix_of
from attnscope.checks.visibility.sequences import decoded, goes_along
from attnscope.checks.visibility.tokens import by_token, real_tokens, sequence_of, value_in
from attnscope.errors import AttnscopeError

__all__ = ["LaterTokens", "Leak", "changed_at", "later_tokens"]


class _How(TypedDict):
    train: bool
    graded: bool


MODES: dict[str, _How] = {
    "eval mode": {"train": False, "graded": False},
    "eval mode with gradients": {"train": False, "graded": True},
    "train mode": {"train": True, "graded": True},
}
"""Modes in which kernels and masks are chosen differently."""

_SMALL, _LARGE = 5_000_000, 50_000_000
"""Parameters above which one mode that leaks, and one cut in the middle, have to do."""

EXACTLY = "eval mode, in float64"
"""The mode of a leak that half types hide."""

_COARSE = 1e-4
"""Roundoff above which noise may hide a leak: that of float16 and bfloat16."""

_KEYS = frozenset("k key keys xk v value values xv kv".split())


@dataclass(frozen=True, slots=True)
class Leak:
    """What moved in one mode: by how much at most, at which earlier position, in how many of them.

    cut: the first token that was changed.
    """

    mode: str
    largest: float
    position: int
    moved: int
    cut: int


@dataclass(frozen=True, slots=True)
class LaterTokens:
    """Outputs before a cut, when the tokens from the cut on are others.

    cuts: the first tokens that were changed, one after another; noise: what an entry may move by
    rounding. own: how far outputs from the cut on moved (0: the change did nothing). leaks: the
    modes in which earlier outputs moved, each at the cut where most did; modes: all that were run.
    without: the mask that was left out there, where no output moves with it.
    """

    stream: Stream
    cuts: tuple[int, ...]
    noise: float
    own: float
    leaks: tuple[Leak, ...]
    modes: tuple[str, ...]
    without: str | None = None


@probe
def later_tokens(subject: Subject) -> LaterTokens:
    """Change the tokens behind a cut and compare the outputs before it.

    Tokens of a prefix see one another, so that the cut lies behind it. Outputs of padding, which
    nobody reads, are left out.

    Raises:
        Skipped: there is no sequence, or the output has no axis of tokens.
    """
    stream = _sequence(subject)
    length = stream.length(subject.given)
    batch_axis, token_axis = along(subject, subject.output, stream)
    if token_axis is None:
        raise Skipped("the output has no axis of tokens, so that none can be said to move")
    cuts = list(_cuts(subject, length))
    leaks: list[Leak] = []
    modes, own = [], 0.0
    for mode, how in MODES.items():
        try:
            before = subject.main_output(**how)
        except Skipped:
            continue
        modes.append(mode)
        found: list[Leak] = []
        for cut in cuts if mode == "eval mode" else cuts[:1]:
            late = _late(subject, stream, cut)
            try:
                after = subject.main_output(changed_at(subject, stream, late), **how)
            except Skipped:
                continue
            gap = by_token(gap_of(before, after), batch_axis, token_axis)
            own = max(own, _most(gap, late))
            found += _leak(
                subject, gap.masked_fill(late | ~real_tokens(subject, stream), 0.0), mode, cut
            )
            if found and _parameters(subject) > _SMALL:
                break
        leaks += [max(found, key=lambda leak: (leak.moved, leak.largest))] if found else []
        if leaks and _parameters(subject) > _SMALL:
            break
    if not leaks and subject.base.roundoff > _COARSE:
        modes.append(EXACTLY)
        leaks += _exactly(subject, stream, cuts[0], (batch_axis, token_axis))
    without = None if leaks else _optional_mask(subject, stream)
    if without is not None:
        found = _unmasked(subject, stream, without, (batch_axis, token_axis))
        leaks, without = found, without if found else None
    return LaterTokens(stream, tuple(cuts), subject.noise, own, tuple(leaks), tuple(modes), without)


def _optional_mask(subject: Subject, stream: Stream) -> str | None:
    """Return the padding mask of a library's model that may as well be left out, if it was given.

    Only a model with a config: others may get their causal mask by such an argument.
    """
    padding = subject.roles.padding_of(stream)
    if padding is None or not padding.given or not subject.has_library_config:
        return None
    taken = next((p for p in subject.given.parameters if p.name == padding.name), None)
    return padding.name if taken is not None and taken.default is None else None


def _unmasked(
    subject: Subject, stream: Stream, name: str, axes: tuple[int | None, int]
) -> list[Leak]:
    """Return the leak that shows where a mask of padding, which masks more, is left out."""
    cut = stream.length(subject.given) // 2
    late = _late(subject, stream, cut)
    changed = changed_at(subject, stream, late)
    try:
        before, after = (
            subject.main_output(given.with_values(**{name: None}))
            for given in (subject.given, changed)
        )
    except Skipped:
        return []
    early = by_token(gap_of(before, after), *axes).masked_fill(late, 0.0)
    return _leak(subject, early, f"eval mode, without {name}", cut)


def _exactly(
    subject: Subject, stream: Stream, cut: int, axes: tuple[int | None, int]
) -> list[Leak]:
    """Return the leak that the operations of the run show in float64: half types hide much."""
    side, main = subject.base, next(iter(subject.base.outputs.values()), None)
    start, output = value_in(side, subject.given, stream.name), None
    if main is not None:
        output = side.tape.value_of(main)
    if start is None or output is None or subject.crash is not None:
        return []
    late = _late(subject, stream, cut)
    changed = changed_at(subject, stream, late).values[stream.name]
    try:
        before = side.tape.run([output], wide=True)[output]
        after = side.tape.run([output], {start: changed}, wide=True)[output]
    except (AttnscopeError, RuntimeError, TypeError):
        return []
    gap = gap_of(before, after).masked_fill(~differs(before, after), 0.0)
    early = by_token(gap, *axes).masked_fill(late | ~real_tokens(subject, stream), 0.0)
    rows = early.amax(0)
    count = int((rows > 0).sum())
    return [Leak(EXACTLY, float(rows.max()), int(rows.argmax()), count, cut)] if count else []


def _leak(subject: Subject, early: Tensor, mode: str, cut: int) -> list[Leak]:
    """Return the leak that differences before a cut, (batch, length), show, or none."""
    rows = early.amax(0)
    count = int((rows > subject.noise).sum())
    return [Leak(mode, float(rows.max()), int(rows.argmax()), count, cut)] if count else []


def _sequence(subject: Subject) -> Stream:
    """Return the sequence whose own order matters: in an encoder-decoder that of the decoder."""
    stream = sequence_of(subject)
    if stream is None or stream.sequence_axis is None:
        raise Skipped("no input is a sequence of tokens: give inputs that are")
    length = stream.length(subject.given)
    if length < 2:
        raise Skipped(f"{stream.name} has {length} token: give inputs with more")
    decodes = stream.name.startswith(("decoder", "tgt", "target"))
    if attribute(subject.config, "is_encoder_decoder") and not decodes:
        raise Skipped("the decoder's own tokens are not among the inputs: give decoder_input_ids")
    return decoded(subject, stream) if len(subject.roles.streams) > 1 else stream


def _cuts(subject: Subject, length: int) -> Iterator[int]:
    """Iterate over the first tokens to change, the middle first; 0: all that is no prefix."""
    yield length // 2
    if _parameters(subject) > _LARGE:
        return
    yield from {1, length - 1} - {length // 2}
    if "prefix" in subject.expect:
        yield 0


def _parameters(subject: Subject) -> int:
    parameters = subject.model.parameters() if subject.model is not None else ()
    return sum(p.numel() for p in parameters)


def _late(subject: Subject, stream: Stream, cut: int) -> Tensor:
    """Return which tokens are changed, (batch, length): those from the cut on, prefix left out."""
    positions = torch.arange(stream.length(subject.given))
    return (positions >= cut) & ~prefix_of(subject, stream) & _after_prefix(subject, stream)


def _after_prefix(subject: Subject, stream: Stream) -> Tensor:
    """Return True = no token of the prefix comes later."""
    prefix = prefix_of(subject, stream)
    return ~prefix.flip(-1).cummax(-1).values.flip(-1) if prefix.any() else ~prefix


def changed_at(subject: Subject, stream: Stream, where: Tensor) -> Given:
    """Return inputs with other tokens at `where`, in every sequence that goes along with `stream`.

    Those are the other inputs of one item a token (returns, states, actions), and, where q, k and v
    are handed over as they are, the keys and values of the same tokens.
    """
    given = subject.given
    length = stream.length(given)
    for other in subject.roles.streams:
        count = other.length(given)
        keys = other.memory and other.name in _KEYS and count >= length
        beside = not other.memory and count == length and goes_along(subject, stream, other)
        if other.name == stream.name or keys or beside:
            first = torch.zeros(where.shape[0], count - length, dtype=torch.bool)
            given = other_tokens(subject, other, torch.cat((first, where), 1), given)
    return given


def _most(gap: Tensor, where: Tensor) -> float:
    chosen = gap[where.expand(gap.shape)]
    return float(chosen.max()) if chosen.numel() else 0.0
