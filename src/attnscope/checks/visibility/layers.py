"""Finds the attentions of a run that can be run again by themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attnscope.checks.course import representatives
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.layer import Layer
from attnscope.checks.visibility.origins import (
    FLAT,
    STEPS,
    carried_by,
    is_own,
    is_plain,
    rearranges,
    side_by_side,
    streams_of,
    together,
)
from attnscope.checks.visibility.tokens import Tokens, tokens_of
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.side import Side
from attnscope.errors import AttnscopeError

__all__ = ["layers_of"]

_SMALL = 5_000_000
"""Parameters above which one layer of each kind will do."""


def layers_of(
    subject: Subject, side: Side | None = None, *, few: bool = False
) -> tuple[Layer, ...]:
    """Return the attentions of a run (the base run) that can be run again by themselves.

    few: of a large model one of each kind will do: the same lines, sizes and mask.
    """
    if side is not None:
        return tuple(_layers(subject, side, side.located))
    if few and _is_large(subject):
        return subject.once(
            ("layers", "few"),
            lambda: tuple(_layers(subject, subject.base, list(_of_each_kind(subject)))),
        )
    return subject.once(
        ("layers",), lambda: tuple(_layers(subject, subject.base, subject.base.located))
    )


def _is_large(subject: Subject) -> bool:
    parameters = subject.model.parameters() if subject.model is not None else ()
    return sum(p.numel() for p in parameters) > _SMALL


def _of_each_kind(subject: Subject) -> Iterator[Located]:
    """Iterate over calls that differ from those before in their lines or their mask."""
    first = {id(each.call) for each in representatives(subject)}
    known: set[object] = set()
    for located in subject.base.located:
        call = located.call
        shown = call.recipe.mask.dense(call.queries, call.keys)
        kind = (call.queries, call.keys, tuple(shown.shape), shown.numpy(force=True).tobytes())
        if kind not in known or id(call) in first:
            known.add(kind)
            yield located


def _layers(subject: Subject, side: Side, calls_of_run: Sequence[Located]) -> Iterator[Layer]:
    groups: dict[tuple[int, ...], list[Located]] = {}
    for located in calls_of_run:
        if all(located.spots.get(name) for name in ("q", "k", "v", "context")):
            sources = tuple(sorted({*_sources(side, located)}))
            groups.setdefault(sources, []).append(located)
    for calls in groups.values():
        whole = _run_again(subject, side, calls)
        if whole is not None:
            yield whole
            continue
        apart: dict[str, list[Located]] = {}
        for each in calls:  # one memory is read by several layers
            apart.setdefault(each.call.module, []).append(each)
        for own in apart.values() if len(apart) > 1 else ():
            layer = _run_again(subject, side, own)
            if layer is not None:
                yield layer


def _run_again(subject: Subject, side: Side, calls: list[Located]) -> Layer | None:
    """Return the layer of some calls, where it can be run again."""
    with contextlib.suppress(AttnscopeError, RuntimeError, IndexError, KeyError, TypeError):
        layer = _layer(subject, side, calls)
        if layer is not None and layer.can_be_run:
            return layer
    return None


def _sources(side: Side, located: Located) -> Iterable[int]:
    """Return what keys and values come from: what is projected, or they themselves."""
    received = located.received
    for name in ("k", "v"):
        if name in received:
            yield together(side, received[name])
        else:
            yield from (value for value, _ in located.spots[name])


def _layer(subject: Subject, side: Side, calls: list[Located]) -> Layer | None:
    tape = side.tape
    for stream in subject.roles.streams:
        given = {}
        for value in _sources(side, calls[0]):
            tokens = _placed(subject, calls[0], value, tuple(tape.tensors[value].shape), stream)
            if tokens is None:
                break
            given[value] = tokens
        else:
            found = _returned(subject, side, calls, stream)
            if found is not None:
                found = _before_cut(subject, side, calls, stream, found, given)
                own = is_own(subject, side, calls, given, found[1])
                reads = streams_of(subject, side, given)
                carries = carried_by(subject, side, given) or reads
                beside = side_by_side(subject, side, calls, found[1], reads)
                return Layer(side, tuple(calls), given, *found, own, reads, carries, beside)
    return None


def _placed(
    subject: Subject, located: Located, value: int, shape: tuple[int, ...], stream: Stream
) -> Tokens | None:
    """Return where the tokens of a source lie; those of bare k and v are read off the call."""
    for name in ("k", "v", "context"):
        if any(value == spot for spot, _ in located.spots[name]) and len(shape) == 4:
            sizes = (
                located.call.batch,
                located.call.keys if name != "context" else located.call.queries,
            )
            heads_first = shape[2] == sizes[1] and shape[1] in {
                located.call.kv_heads,
                located.call.heads,
            }
            if shape[0] == sizes[0] and heads_first:
                return Tokens(sizes[0], sizes[1], 0, (2,))
            if shape[0] == sizes[0] and shape[1] == sizes[1]:
                return Tokens(sizes[0], sizes[1], 0, (1,))
            return None
    return tokens_of(subject, shape, stream)


def _returned(
    subject: Subject, side: Side, calls: list[Located], stream: Stream
) -> tuple[int, Tokens] | None:
    """Return the value that holds the results of all calls, and where its tokens lie."""
    last = calls[-1]
    contexts = {value for each in calls for value, _ in each.spots["context"]}
    options = [] if last.output is None else [last.output]
    if len(contexts) == 1:
        options += list(contexts)
    main = subject.roles.main or stream
    for value in (_apart(side, each) for each in options):
        if not contexts <= set(_behind(side, value, contexts)):
            continue
        for asked in (main, *subject.roles.streams):
            shape = tuple(side.tape.tensors[value].shape)
            tokens = _placed(subject, last, value, shape, asked)
            if tokens is not None and tokens.count > 0:
                return value, tokens
    return None


def _before_cut(
    subject: Subject,
    side: Side,
    calls: list[Located],
    stream: Stream,
    found: tuple[int, Tokens],
    given: Mapping[int, Tokens],
) -> tuple[int, Tokens]:
    """Return the results as they were before tokens were cut off that had only filled up a block.

    That is where there are as many of them as tokens that can be attended to.
    """
    value, rows = found
    counts = {tokens.count for tokens in given.values()}
    contexts = {spot for each in calls for spot, _ in each.spots["context"]}
    for _ in range(STEPS if len(calls) == 1 and rows.count < max(counts) else 0):
        maker = side.tape.maker.get(value)
        before = next(iter(maker.values()), value) if maker is not None else value
        if before == value or not contexts <= set(_behind(side, before, contexts)):
            break
        value = before
        shape = tuple(side.tape.tensors[value].shape)
        tokens = (
            _placed(subject, calls[0], value, shape, stream) if len(shape) == FLAT + 1 else None
        )
        if tokens is not None and {tokens.count} == counts:
            return value, tokens
    return found


def _apart(side: Side, value: int) -> int:
    """Return a result as it is further on, where its axes can't be told apart here."""
    tape, found = side.tape, value
    for _ in range(STEPS):
        if is_plain(tape.tensors[found]):
            return found
        users = [op for op in tape.users.get(found, []) if rearranges(tape, op, found)]
        if not users:
            break
        found = users[0].defines[0]
    return found if tape.tensors[found].dim() > FLAT else value


def _behind(side: Side, value: int, wanted: set[int]) -> set[int]:
    """Return which of some values another one is made from."""
    if value in wanted:
        return {value}
    held = {each: side.tape.tensors[each] for each in wanted}
    needed = side.tape.program.needed((value,), held)
    read = {each for operation in needed for each in operation.needs}
    return wanted & read
