"""From what a test names to a report: the target is built under a seed, and checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from attnscope.checks.report import Report
from attnscope.checks.silencing import Settings, silence
from attnscope.errors import InputError

if TYPE_CHECKING:
    from attnscope.calls.source import Source
    from attnscope.targets.target import Inputs

__all__ = ["Asked", "Target", "run"]

Target: TypeAlias = str | Callable[..., Any]
"""A module; a class or a function without required arguments that makes one; a function to check;
or a TARGET of the command line."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What is to be checked, on what, for which rules.

    inputs: a dict, a tuple, a tensor, a function that returns one, "file.py:name", or None.
    settings: which rules run, and what is silenced; seed: of what building the target and the check
    draw.
    """

    target: Target
    inputs: Any = None
    expect: Mapping[str, Any] | None = None
    settings: Settings = field(default_factory=Settings)
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Built:
    """A target that is ready to run, with the fields of `attnscope.targets.Target`."""

    run: Callable[..., Any]
    inputs: Inputs | None
    expect: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    folder: Path | None = None
    maker: Source | None = None


def run(asked: Asked) -> Report:
    """Build the target, check it, and take out what is silenced.

    Raises:
        TargetError: it, its inputs or `expect` can't be used, or its forward raises.
        InputError: it is nothing that can be checked.
    """
    import torch

    from attnscope.checks.entry import check
    from attnscope.targets import importing_from

    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(asked.seed)  # so that the report is the same whichever test came before
        built = _of_words(asked) if isinstance(asked.target, str) else _of_object(asked)
    with importing_from(built.folder):
        report = check(
            built.run,
            built.inputs,
            expect=built.expect,
            select=asked.settings.select,
            ignore=tuple(asked.settings.ignore),
            name=built.name,
            seed=asked.seed,
            maker=built.maker,
        )
    return silence(report, asked.settings, Path.cwd(), model=built.run)


def _of_words(asked: Asked) -> _Built:
    """Build what a TARGET stands for; what the test gives goes before what its file defines."""
    from attnscope.checks.expect import read_expect
    from attnscope.targets import Wishes, resolve
    from attnscope.targets.members import built_model
    from attnscope.targets.own_code import opened

    words = str(asked.target)
    more = read_expect(asked.expect or {}, f"reading expect for {words}")
    inputs = None if isinstance(asked.inputs, str) else _inputs(asked.inputs, words, Path.cwd())
    if inputs is not None and _is_own_code(words):  # perhaps none could be made for it
        with opened(words) as code:
            model = built_model(code.value(), f"building {words}", code.folder)
            expect = code.expect() | more
            return _Built(model, inputs, expect, words, code.folder, code.maker())
    place = asked.inputs if isinstance(asked.inputs, str) else None
    found = resolve(words, Wishes(inputs=place))
    expect = {**found.expect, **more}
    ready = inputs or found.inputs
    return _Built(found.model, ready, expect, words, found.folder, found.maker)


def _is_own_code(words: str) -> bool:
    kind, _, rest = words.partition(":")
    return not (kind in {"arch", "sample"} and rest) and not Path(words).is_dir()


def _of_object(asked: Asked) -> _Built:
    """Build what an object of the test stands for."""
    from torch import nn

    from attnscope.checks.expect import read_expect
    from attnscope.targets.made import make_inputs
    from attnscope.targets.members import called

    target: Any = asked.target
    name = getattr(target, "__qualname__", type(target).__qualname__)
    folder = _folder(target)
    made: Any = target
    if not isinstance(target, nn.Module) and (isinstance(target, type) or _takes_nothing(target)):
        made = called(target, f"building {name}", folder)
    if not callable(made) or isinstance(made, type):
        raise InputError(
            f"checking {name}",
            f"{type(made).__name__}, which can't be called with tensors",
            "give a module, a function that makes one, a function of tensors, or a TARGET",
        )
    expect = read_expect(asked.expect or {}, f"reading expect for {name}")
    inputs = _inputs(asked.inputs, name, folder)
    if inputs is None and isinstance(made, nn.Module):
        inputs = make_inputs(made, expect)
    return _Built(made, inputs, expect)


def _inputs(inputs: Any, name: str, folder: Path) -> Inputs | None:
    """Return inputs that a test gave as an object or as "file.py:name"."""
    from attnscope.targets.members import read_inputs
    from attnscope.targets.resolve import given_inputs

    if inputs is None or isinstance(inputs, str):
        return given_inputs(inputs)
    return read_inputs(inputs, f"reading inputs for {name}", folder)


def _takes_nothing(target: Any) -> bool:
    """Return whether a function can be called without arguments, so that it makes a model."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return False
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(
        each.default is not inspect.Parameter.empty or each.kind in loose for each in parameters
    )


def _folder(target: Any) -> Path:
    """Return the folder of the file that defines a function or class."""
    try:
        file = inspect.getsourcefile(target if inspect.isroutine(target) else type(target))
    except TypeError:  # built into Python
        file = None
    return Path(file).parent if file else Path.cwd()
