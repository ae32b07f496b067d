"""What is measured about one architecture: that nothing changed, that all was seen and proven."""

from __future__ import annotations

import copy
import random
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import attnscope
from attnscope.calls import tolerance
from attnscope.calls.call import Call
from attnscope.calls.trace import Trace
from attnscope.errors import TargetError
from attnscope.targets.architectures import Built, build
from benchmarks.sweeping.row import Row, Setting, Spot
from benchmarks.sweeping.softmaxes import (
    Line,
    SoftmaxCount,
    accounted,
    code_at,
    disputed,
    softmaxes_of,
)
from benchmarks.sweeping.state import State, differences, state_after, tensors_in

_SEED = 20
_ROOT = Path(transformers.__file__).resolve().parent
_MOST_TEXT = 300


class Source:
    """Fresh copies of one architecture: it is built once, since building takes longest."""

    def __init__(self, name: str, attention: str | None) -> None:
        """Build `name`; raises TargetError where that can't be done."""
        self.built = build(name, attn_implementation=attention)

    def fresh(self, *, train: bool) -> Built:
        """Return a copy that no run has touched."""
        one = copy.deepcopy(self.built)
        one.model.train(train)
        return one


def measure(name: str, setting: Setting, source: Source | None = None) -> Row:
    """Return what the sweep wants to know about one architecture in one setting."""
    row = Row(name, setting.name)
    try:
        source = source or Source(name, setting.attention)
    except TargetError as error:
        row.status, row.error = "not built", _text(error)
        return row
    row.model_class = source.built.model_class
    try:
        lines, _ = _counted(source.fresh(train=setting.train), setting)
        started = time.perf_counter()
        plain = _plain(source.fresh(train=setting.train), setting)
        row.seconds_plain = time.perf_counter() - started
    except Exception as error:  # noqa: BLE001  any failure of the model itself is a row
        row.status, row.error = "does not run", _text(error)
        return row
    row.softmaxes = lines.total()
    try:
        _recorded(row, source, setting, plain, lines)
    except Exception as error:  # noqa: BLE001  any failure of the recorder is a row
        row.status, row.error = "recording raises", _text(error)
    return row


def _recorded(
    row: Row, source: Source, setting: Setting, plain: State, lines: Counter[Line]
) -> None:
    built = source.fresh(train=setting.train)
    _seed()
    started = time.perf_counter()
    with attnscope.record(built.model) as trace:
        output = _run(built, setting)
    row.seconds_recorded = time.perf_counter() - started
    row.changed = differences(plain, state_after(built.model, output))
    if row.changed:
        row.restless = differences(plain, _plain(source.fresh(train=setting.train), setting))
        row.changed = [name for name in row.changed if name not in row.restless]
    _calls(row, trace)
    _accounts(row, trace, lines)
    row.unseen = _spots((unseen.module, unseen.reason) for unseen in trace.unseen)


# -- running ---------------------------------------------------------------------------------------


def _plain(built: Built, setting: Setting) -> State:
    _seed()
    return state_after(built.model, _run(built, setting))


def _counted(built: Built, setting: Setting) -> tuple[Counter[Line], Any]:
    _seed()
    with SoftmaxCount() as count:
        output = _run(built, setting)
    return count.lines, output


def _run(built: Built, setting: Setting) -> Any:
    """Run the model; in train mode with a backward from the sum of its outputs."""
    context: AbstractContextManager[Any] = nullcontext() if setting.train else torch.no_grad()
    with context:
        output = built.model(**built.inputs)
        if setting.train:
            sums = [
                tensor.sum()
                for _, tensor in tensors_in(output)
                if tensor.requires_grad and tensor.is_floating_point()
            ]
            if sums:
                torch.stack([one.float() for one in sums]).sum().backward()
    return output


def _seed() -> None:
    torch.manual_seed(_SEED)
    random.seed(_SEED)
    np.random.seed(_SEED)  # noqa: NPY002  the state that models draw from


# -- reading the trace -----------------------------------------------------------------------------


def _calls(row: Row, trace: Trace) -> None:
    row.calls = len(trace)
    row.kinds = dict(Counter(call.kind for call in trace))
    misses: list[tuple[str, str]] = []
    raises: list[tuple[str, str]] = []
    unknown: list[tuple[str, str]] = []
    bare: list[tuple[str, str]] = []
    started = time.perf_counter()
    for call in trace:
        place = _short(call.source.file, call.source.line)
        try:
            gap = call.replay_error
        except Exception as error:  # noqa: BLE001  any failure of a replay is a row
            raises.append((place, _text(error)))
        else:
            bound = _bound(call)
            row.blank += gap is None
            row.exact += gap is not None and gap <= bound
            if gap is not None and gap > bound:
                misses.append((place, f"{call.kind}: {gap:.1e}"))
        try:
            unknown.extend((place, part) for part in call.recipe.unknown)
        except Exception as error:  # noqa: BLE001  a recipe that can't be read is unknown
            unknown.append((place, f"raises {_text(error)}"))
        if not softmaxes_of(call):
            bare.append((place, _normaliser(call)))
    row.seconds_replay = time.perf_counter() - started
    row.misses, row.raises = _spots(misses), _spots(raises)
    row.unknown, row.bare = _spots(unknown), _spots(bare)


def _normaliser(call: Call) -> str:
    try:
        return call.recipe.normaliser
    except Exception as error:  # noqa: BLE001  a recipe that can't be read has no normaliser
        return type(error).__name__


def _bound(call: Call) -> float:
    """Return how far a replay may be off: not at all where the operations run again."""
    if call.kind == "eager":
        return 0.0
    return tolerance.replay(call.q.dtype, call.keys, call.head_dim)


def _accounts(row: Row, trace: Trace, lines: Counter[Line]) -> None:
    known = accounted(trace)
    row.others = _spots(
        (_short(other.source.file, other.source.line), other.role) for other in trace.others
    )
    row.disputed = [_at(line, count) for line, count in disputed(trace).items()]
    row.unaccounted = [_at(line, count) for line, count in (lines - known).items()]
    row.doubled = [_at(line, count) for line, count in (known - lines).items()]


def _at(line: Line, count: int) -> Spot:
    return Spot(_short(*line), count, code_at(line))


def _spots(found: Iterable[tuple[str, str]]) -> list[Spot]:
    return [Spot(place, count, text) for (place, text), count in Counter(found).items()]


def _short(file: str, line: int) -> str:
    path = Path(file)
    inside = path.is_relative_to(_ROOT)
    return f"{path.relative_to(_ROOT).as_posix() if inside else path.name}:{line}"


def _text(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
