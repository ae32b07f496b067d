"""Reading CALL:HEAD and CALL:HEAD:QUERY, and choosing heads that are worth a look."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence

from attnscope.calls import Call, Trace
from attnscope.calls.walk import Walk
from attnscope.cli.running import Run
from attnscope.errors import InputError
from attnscope.show import words
from attnscope.show.plots import Panel

MOST_CALLS = 4
MOST_PANELS = 8


def chosen_heads(trace: Trace, calls: Sequence[Call], places: str | None) -> list[tuple[Call, int]]:
    """Return the calls and heads to draw.

    Args:
        trace: in which calls are looked up.
        calls: from which is chosen when nothing is asked for.
        places: "CALL:HEAD,CALL:HEAD,...", or None: all heads where there are few, else of
            some calls, from first to last, heads from the most focused to the most spread.

    Raises:
        InputError: a place isn't of that form, or doesn't exist.
    """
    if places is None:
        return _telling(calls)
    return [_call_and_head(trace, place) for place in places.split(",")]


def walk_of(run: Run, place: str) -> tuple[Walk, tuple[str, ...] | None, str | None]:
    """Return the walk of "CALL:HEAD:QUERY", with the labels of its keys and of its query.

    Raises:
        InputError: the place isn't of that form, or doesn't exist.
    """
    doing = f"reading --walk {place}"
    parts = place.split(":", 2)
    if len(parts) != 3:
        raise InputError(doing, "it is not CALL:HEAD:QUERY", "write for example --walk 0:3:-1")
    call, head = _call_and_head(run.trace, f"{parts[0]}:{parts[1]}", doing)
    queries = run.query_tokens(call)
    query = _query(parts[2], queries, doing)
    walk = run.trace.walk(call.index, head, query)
    return walk, run.key_tokens(call), queries[walk.query] if queries else None


def panels(run: Run, heads: Sequence[tuple[Call, int]]) -> list[Panel]:
    """Return what a picture of these heads shows, for the first sample of the batch."""
    return [_panel(run, call, head) for call, head in heads]


def near(name: str, known: Sequence[str], most: int = 4) -> str:
    """Return the names most like `name`, or the first ones."""
    close = difflib.get_close_matches(name, known, n=most, cutoff=0.5) or list(known[:most])
    more = f" and {len(known) - len(close)} more" if len(known) > len(close) else ""
    return ", ".join(close) + more


def _panel(run: Run, call: Call, head: int) -> Panel:
    numbers = words.numbers_of(call)
    note = f"call {call.index}"
    if numbers is not None:
        note += f", entropy {words.number(numbers.entropy[head], 3)} nats"
    mask = words.recipe_of(call).mask
    visible = None
    if mask.hides:
        whole = mask.dense(call.queries, call.keys)
        visible = whole.expand(call.batch, call.heads, call.queries, call.keys)[0, head]
    return Panel(
        title=f"{call.module or type(run.target.model).__name__} · head {head}",
        note=note,
        weights=call.weights()[0, head],
        visible=visible,
        queries=run.query_tokens(call),
        keys=run.key_tokens(call),
    )


def _telling(calls: Sequence[Call]) -> list[tuple[Call, int]]:
    """Choose heads that show the range of what the calls do."""
    if sum(call.heads for call in calls) <= MOST_PANELS:
        return [(call, head) for call in calls for head in range(call.heads)]
    count = min(MOST_CALLS, len(calls))
    spread = [
        calls[round(number * (len(calls) - 1) / max(count - 1, 1))] for number in range(count)
    ]
    heads = MOST_PANELS // count
    return [(call, head) for call in spread for head in _extremes(call, heads)]


def _extremes(call: Call, count: int) -> list[int]:
    """Return heads evenly from the most focused to the most spread."""
    numbers = words.numbers_of(call)
    entropy = numbers.entropy if numbers else (0.0,) * call.heads
    order = sorted(range(call.heads), key=lambda head: (math.isnan(entropy[head]), entropy[head]))
    count = min(count, call.heads)
    return [order[round(place * (call.heads - 1) / max(count - 1, 1))] for place in range(count)]


def _call_and_head(trace: Trace, place: str, doing: str | None = None) -> tuple[Call, int]:
    doing = doing or f"reading --heads {place}"
    parts = place.split(":")
    if len(parts) != 2:
        raise InputError(doing, f"{place!r} is not CALL:HEAD", "write for example --heads 0:3,5:1")
    call = trace[_whole(parts[0], "call", doing)]
    head = _whole(parts[1], "head", doing)
    if not -call.heads <= head < call.heads:
        raise InputError(
            doing,
            f"call {call.index} has {call.heads} heads",
            f"use a head from 0 to {call.heads - 1}",
        )
    return call, head % call.heads


def _whole(text: str, what: str, doing: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(
            doing, f"the {what} {text!r} is not a whole number", "give its index"
        ) from None


def _query(text: str, tokens: Sequence[str] | None, doing: str) -> int:
    """Return the position of a query, given as a number or as the text of a token."""
    try:
        return int(text)
    except ValueError:
        pass
    if tokens is None:
        raise InputError(doing, f"the queries have no words to find {text!r} in", "give a position")
    found = [position for position, token in enumerate(tokens) if token == text]
    if len(found) == 1:
        return found[0]
    if found:
        positions = ", ".join(map(str, found))
        raise InputError(doing, f"{text!r} stands at the positions {positions}", "give one of them")
    numbered = ", ".join(f"{position} {token}" for position, token in enumerate(tokens[:40]))
    raise InputError(doing, f"there is no token {text!r}", f"the tokens are: {numbered}")
