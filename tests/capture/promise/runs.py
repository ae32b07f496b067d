"""One model run plainly and run recorded, from the same state; any difference fails."""

from __future__ import annotations

import contextlib
import importlib
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attnscope.calls.trace import Trace
from attnscope.capture import record
from tests.capture.promise.sameness import frozen
from tests.capture.promise.world import World, world_now

with warnings.catch_warnings():  # what PyTorch itself imports late, and changes names by
    warnings.simplefilter("ignore")
    for name in ("_dynamo", "_functorch.aot_autograd", "_decomp.decompositions_for_jvp"):
        importlib.import_module(f"torch.{name}")

Recorder = Callable[[Any], contextlib.AbstractContextManager[Any]]


@dataclass(slots=True)
class Outcome:
    """What a run left: its result or error, its warnings, the world after it."""

    result: Any = None
    warned: list[tuple[type, str]] = field(default_factory=list)
    world: World = field(default_factory=lambda: World({}))
    trace: Trace | None = None
    error: Exception | None = None

    def differences(self, other: Outcome) -> list[str]:
        """Name everything in which two runs differ."""
        found = [] if self.result == other.result else [_first("result", self.result, other.result)]
        if self.warned != other.warned:
            found.append(f"warnings: {self.warned} {other.warned}")
        return found + self.world.differences(other.world)


def seed(number: int) -> None:
    """Seed the three generators that models draw from."""
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002  the generator that models share
    torch.manual_seed(number)


def outcome(
    build: Callable[[], Any], run: Callable[[Any], Any], recorder: Recorder | None
) -> Outcome:
    """Build, run inside `recorder` where there is one, and write down what came of it."""
    seed(7)
    model = build()
    seed(8)
    made = Outcome()
    around = contextlib.nullcontext() if recorder is None else recorder(model)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        torch.set_warn_always(True)  # else the second run is silent about what the first was told
        try:
            with around as made.trace:
                result = run(model)
        except Exception as error:  # noqa: BLE001  any error of the model is part of the outcome
            result = made.error = error
        torch.set_warn_always(False)
        made.world = world_now(model)
    made.warned = list(dict.fromkeys((one.category, str(one.message)) for one in warned))
    made.result = frozen(result)
    return made


def undisturbed(
    build: Callable[[], Any],
    run: Callable[[Any], Any],
    *,
    recorder: Recorder | None = None,
    fails: bool = False,
) -> Trace:
    """Run plainly and recorded, let nothing differ, and return what was recorded.

    build: makes the model anew; run: what is done with it, returns anything.
    """
    plain = outcome(build, run, None)
    if _raised(plain.result) != fails:
        pytest.fail(f"the plain run already {'fails' if not fails else 'works'}: {plain.result}")
    between = world_now()
    recorded = outcome(build, run, recorder or record_model)
    differences = plain.differences(recorded)
    differences += [n for n in between.differences(world_now()) if not n.startswith("random")]
    if differences or recorded.trace is None:
        raise AssertionError("\n".join(differences)) from recorded.error
    return recorded.trace


def record_model(model: Any) -> contextlib.AbstractContextManager[Trace]:
    """Record as a user does."""
    return record(model if isinstance(model, nn.Module) else None)


def _raised(result: Any) -> bool:
    return isinstance(result, tuple) and bool(result) and isinstance(result[0], type)


def _first(path: str, a: Any, b: Any) -> str:
    """Say where two frozen results differ first."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        for number, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y:
                return _first(f"{path}[{number}]", x, y)
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            if a[key] != b[key]:
                return _first(f"{path}[{key!r}]", a[key], b[key])
    return f"{path}: {a!s:.400} is not {b!s:.400}"
