"""Which call should read a sequence, and does not."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.caller import line_of_call
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.probes.memory_changed import MemoryChanged, memory_changed
from attnscope.checks.rule import Skipped
from attnscope.checks.scoring.reading import is_of_a_library, path_back
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Astray", "Divided", "astray", "divided"]

_CROSS = re.compile(
    r"cross|x_?att(n|ention)|(enc|encoder)_?attn|enc_?dec|multihead_attn$|src_attn|attn2|co_?att|memory|context|_ca$"
)
_PARTS = frozenset("chunk split unbind tensor_split split_with_sizes".split())


@dataclass(frozen=True, slots=True, eq=False)
class Astray:
    """A call that reads another sequence than it is given.

    unread: the sequence that it should read; what: what is known about it, in words. values_only:
    its keys do come from there.
    """

    call: Call
    unread: MemoryChanged
    what: str
    source: Source
    values_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Divided:
    """A call whose keys are made of one sequence, and its values of another one."""

    call: Call
    keys: str
    values: str
    source: Source


def divided(subject: Subject) -> Iterator[Divided]:
    """Iterate over the calls that read one half of a memory, and the other half of their own.

    The memory has to be called so: nothing else says that its values are what is to be read.
    """
    changes = memory_changed(subject)
    for memory in [each for each in changes if each.stream.memory]:
        for own in [each for each in changes if not each.stream.memory]:
            name, other = memory.stream.name, own.stream.name
            for call in subject.calls:
                index = call.index
                if index not in own.asks or subject.located(call) is None:
                    continue
                if index in memory.keys - own.keys and index in own.values:
                    yield Divided(call, name, other, _line_of_half(subject, call, "v"))
                elif index in own.keys - memory.keys and index in memory.values - own.values:
                    yield Divided(call, other, name, _line_of_half(subject, call, "k"))


def _line_of_half(subject: Subject, call: Call, side: str) -> Source:
    """Return the line that calls a module with q, k and v apart, or that projects one of them."""
    module, located = subject.module(call.module), subject.located(call)
    received = located.received if located is not None else {}
    if module is not None and call.module and {"k", "v"} <= set(received):
        tensors = [subject.base.tape.tensors[received[each]] for each in ("k", "v")]
        if all(_is_handed(subject, module, tensor) for tensor in tensors):
            return line_of_call(subject, call.module) or call.source
    return _line_of_projection(subject, call, side)


def _is_handed(subject: Subject, module: nn.Module, tensor: Tensor) -> bool:
    """Return whether a module is called with three tensors or more, this one as it is."""
    found: list[bool] = []

    def look(_module: nn.Module, args: Any, kwargs: Any) -> None:
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
        same = any(t.shape == tensor.shape and torch.equal(t, tensor) for t in given)
        found.append(same and len(given) > 2)

    handle = module.register_forward_pre_hook(look, with_kwargs=True)
    try:
        with contextlib.suppress(Skipped):
            subject.raw()
    finally:
        handle.remove()
    return found[:1] == [True]


def astray(subject: Subject) -> Iterator[Astray]:
    """Iterate over the calls whose keys and values come from the wrong sequence."""
    changes = memory_changed(subject)
    several = len(changes) > 1
    cut_off = _is_cut_off(subject)
    if not cut_off and _is_cut_off(subject, codes=False):
        return  # tokens are quantised on the way, and others may get the same code
    for change in changes:
        if not change.is_idle:
            continue
        if not cut_off and (all(each.is_still for each in changes) if several else change.reads):
            continue  # all outputs are the same whatever comes in: a gate, or a head, at zero
        named = (several or bool(change.reads)) and not change.stream.memory
        call = _reader(subject, change, named=named)
        if call is not None and not _is_there_for_another(subject, call, changes):
            what = "no output depends on it" if change.reads else "the model never reads it"
            yield Astray(call, change, what, _line(subject, change, call))
            return
    for change in changes:
        for call in subject.calls:
            if change.is_still and _has_foreign_values(change, call):
                what = f"but all {call.keys} values of a query are one and the same"
                source = _line_of_projection(subject, call, "v")
                yield Astray(call, change, what, source, values_only=True)
                return
    if several:
        yield from _beside_unused(subject, changes)


def _is_cut_off(subject: Subject, *, codes: bool = True) -> bool:
    """Return whether no input has a way to the output, not even one over a gate at zero.

    codes: whether a way leads through an index that is chosen by numbers, as that of a codebook.
    """
    names = [stream.name for stream in subject.roles.streams]
    return _has_way(subject, names, codes=codes) is False


def _has_way(subject: Subject, names: Collection[str], *, codes: bool = True) -> bool | None:
    """Return whether an input has a way to the output at all; None: that can't be told."""
    base = subject.base
    main = next(iter(base.outputs.values()), None)
    output = base.tape.value_of(main) if main is not None else None
    starts = {subject.input_value(name) for name in names}
    if output is None or None in starts:
        return None
    reached = {value for value in starts if value is not None}
    for operation in base.tape.operations:
        after = reached.intersection((*operation.needs, *operation.values()))
        numbers = any(base.tape.tensors[v].is_floating_point() for v in after)
        for value in operation.defines if after else ():
            if codes or not numbers or base.tape.tensors[value].is_floating_point():
                reached.add(value)
    return output in reached


def _has_foreign_values(change: MemoryChanged, call: Call) -> bool:
    """Return whether a call has keys of a sequence, and values of another that are all the same."""
    if call.index not in change.reads - change.values or call.index in change.asks:
        return False
    if call.keys < 2:
        return False
    try:
        v = call.evidence.value("v").detach()
    except UNREADABLE:
        return False
    return bool((v == v[:, :, :1]).all()) and bool((v != 0).any())


def _reader(subject: Subject, change: MemoryChanged, *, named: bool) -> Call | None:
    """Return the call that is there to read a sequence: its module is given it, or by its name.

    Else the last one, where no name is asked for.
    """
    calls = [call for call in subject.calls if call.index not in change.reads]
    given = {each.module for each in change.entered if each.moved}
    crossing = []
    if _has_way(subject, [change.stream.name]) is False:  # not even over a gate at zero
        crossing += [c for c in calls if c.module in given and not is_of_a_library(subject, c)]
    crossing += [c for c in calls if _CROSS.search(c.module.lower())]
    crossing += [c for c in calls if _is_for_crossing(subject, c, given)]
    if crossing:
        return crossing[0]
    return None if named or not calls else calls[-1]


def _is_there_for_another(subject: Subject, call: Call, changes: tuple[MemoryChanged, ...]) -> bool:
    """Return whether a call is the one of its layer that reads another sequence than its own.

    Where two of a layer read the same one, one of them was meant for the sequence nobody reads.
    """
    layer = call.module.rpartition(".")[0]
    for each in changes:
        if call.index in each.reads - each.asks:
            readers = {
                other.module
                for other in subject.calls
                if other.index in each.reads
                and _CROSS.search(other.module.lower())
                and other.module.rpartition(".")[0] == layer
            }
            return len(readers) < 2
    return False


def _is_for_crossing(subject: Subject, call: Call, given: Collection[str]) -> bool:
    """Return whether a module around a call is given the sequence, and its class says why."""
    parts = call.module.split(".")
    around = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
    kinds = (type(subject.module(path)).__name__ for path in around if path in given)
    return any(_CROSS.search(_snake(kind)) for kind in kinds)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _line(subject: Subject, change: MemoryChanged, call: Call) -> Source:
    """Return the line that calls the module which no longer gets the sequence, or projects k."""
    lost = change.lost_at(call.module)
    if lost is not None and lost.source is not None:
        return lost.source
    return _line_of_projection(subject, call, "k")


def _line_of_projection(subject: Subject, call: Call, side: str) -> Source:
    projection = _projection(subject, call, side)
    return projection.source if projection is not None and projection.source else call.source


def _projection(subject: Subject, call: Call, side: str) -> Operation | None:
    located = subject.located(call)
    spots = located.spots.get(side, []) if located is not None else []
    if located is None or not spots:
        return None
    last: Operation | None = None
    for operation in path_back(subject, spots[0][0], frozenset(subject.base.parameters)):
        last = operation
    return last if last is not None and last.name in CONTRACTIONS else None


def _beside_unused(subject: Subject, changes: tuple[MemoryChanged, ...]) -> Iterator[Astray]:
    """Find a call that reads its own sequence, beside keys of the other one that nobody uses.

    Another call of the same module has to read across, so that this one is meant to.
    """
    for call in subject.calls:
        own = [c for c in changes if call.index in c.reads]
        others = [c for c in changes if call.index not in c.reads and call.index not in c.asks]
        if len(own) != 1 or call.index not in own[0].asks or len(others) != 1:
            continue
        crosses = any(
            each.module == call.module
            and each.index in own[0].reads
            and each.index in others[0].asks
            for each in subject.calls
        )
        if not crosses or not _has_unused_parts(subject, others[0], call):
            continue
        located = subject.located(call)
        output = located.output if located is not None else None
        source = subject.base.source_of(output) or call.source
        what = "its keys and values are computed and nothing uses them"
        yield Astray(call, others[0], what, source)
        return


def _has_unused_parts(subject: Subject, change: MemoryChanged, call: Call) -> bool:
    """Return whether a part of a projection that another call's q comes from is used by nothing."""
    tape = subject.base.tape
    for other in subject.calls:
        if other.module != call.module or other.index not in change.asks:
            continue
        located = subject.located(other)
        spots = located.spots.get("q", []) if located is not None else []
        if located is None or not spots:
            continue
        for operation in path_back(subject, spots[0][0], located.weights):
            unused = [v for v in operation.defines if not tape.users.get(v)]
            if operation.name in _PARTS and len(unused) > 1:
                return True
    return False
