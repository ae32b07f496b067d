"""The two sides of a comparison: targets, or plain functions, and the inputs that both get."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from attnscope.checks.expect import parse_expect
from attnscope.errors import TargetError
from attnscope.targets import checkpoints, samples
from attnscope.targets.files import home, importing_from
from attnscope.targets.made import make_inputs
from attnscope.targets.members import built_model, called
from attnscope.targets.own_code import OwnCode, opened, split
from attnscope.targets.resolve import Wishes, given_inputs, need_sample
from attnscope.targets.target import Inputs

__all__ = ["Both", "Implementation", "both"]

DEFINITION = "attnscope.reference"
"""A target of its own: the definition of attention, `attnscope.reference.attention`."""

_QUERIES = frozenset("q query queries xq Q".split())


@dataclass(frozen=True, slots=True)
class Implementation:
    """One side of a comparison.

    name: as it was given. run: a module, in the mode in which its author left it, or a function.
    declared: inputs that its file defines, or None. make: makes inputs for it where none are
    declared; None for a function. expect: what its author intends. tokenizer: of a checkpoint or
    sample. folder: from which its code imports, or None.
    """

    name: str
    run: Callable[..., Any]
    declared: Inputs | None = None
    make: Callable[[Mapping[str, Any]], Inputs] | None = None
    expect: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Any | None = None
    folder: Path | None = None

    @property
    def is_module(self) -> bool:
        """Whether it is a module, not a function."""
        return isinstance(self.run, nn.Module)


@dataclass(frozen=True, slots=True)
class Both:
    """A candidate and its reference, with what both are run with.

    inputs: None where there are none, and two functions are left to get q, k and v.
    declared: the inputs were given or written down by somebody, not made.
    """

    candidate: Implementation
    reference: Implementation
    inputs: Inputs | None
    expect: Mapping[str, Any]
    declared: bool

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """Let both import from their own folders while they run."""
        with importing_from(self.reference.folder), importing_from(self.candidate.folder):
            yield


def both(candidate: str, reference: str, wishes: Wishes | None = None) -> Both:
    """Return what two targets stand for, ready to be compared.

    Each is any TARGET, or names a function of (q, k, v, …) in torch or NumPy; a function without
    required arguments is called, and what it returns is taken. Two names in one file come from
    one import of it, so that what they share stays shared. `attnscope.reference` is the
    definition.

    Args:
        candidate: the words of the candidate.
        reference: those of the reference.
        wishes: inputs: for both. texts: tokenised as the reference's tokenizer does, else the
            candidate's. expect: over what the files define, the reference's before the
            candidate's. attention: for Hugging Face models.

    Raises:
        TargetError: a side, the inputs or `expect` can't be used.
        MissingExtraError: a package of the extra "hf" or "samples" is not installed.
    """
    wishes = wishes or Wishes()
    known: dict[str, ModuleType] = {}
    with importing_from(_shared_folder(candidate, reference)):
        theirs = _implementation(reference, wishes, known)
        ours = _implementation(candidate, wishes, known)
        if wishes.attention and not any(_is_pretrained(side) for side in (ours, theirs)):
            raise TargetError(
                f"comparing {candidate} with {reference}",
                "--attention chooses between implementations of Hugging Face models",
                "leave it out: neither side is one",
            )
        expect = {**ours.expect, **theirs.expect, **parse_expect(wishes.expect)}
        inputs = given_inputs(wishes.inputs, known)
        if wishes.texts:
            inputs = _tokenised(ours, theirs, wishes, inputs)
    declared = inputs or _declared(ours, theirs)
    inputs = declared or _made(ours, theirs, expect)
    return Both(ours, theirs, _as_tensors(inputs, ours, theirs), expect, declared is not None)


def _implementation(words: str, wishes: Wishes, known: dict[str, ModuleType]) -> Implementation:
    kind, _, rest = words.partition(":")
    if kind == "arch" and rest:
        return _architecture(words, rest, wishes)
    if kind == "sample" and rest:
        return _sample(words, rest, wishes)
    if words == DEFINITION:
        from attnscope import reference

        return Implementation(words, reference.attention)
    if Path(words).is_dir():
        model, tokenizer = checkpoints.load(Path(words), wishes.attention, wishes.announce)
        return Implementation(
            words, model, make=lambda expect: make_inputs(model, expect), tokenizer=tokenizer
        )
    with opened(words, known) as code:
        run = _runnable(code)
        made = (lambda expect: make_inputs(run, expect)) if isinstance(run, nn.Module) else None
        return Implementation(words, run, code.inputs(), made, code.expect(), folder=code.folder)


def _architecture(words: str, name: str, wishes: Wishes) -> Implementation:
    checkpoints.need_transformers(f"building {words}")
    from attnscope.targets.architectures import build

    built = build(name, attn_implementation=checkpoints.implementation(wishes.attention))
    return Implementation(words, built.model, make=lambda _expect: built.inputs)


def _sample(words: str, name: str, wishes: Wishes) -> Implementation:
    need_sample(words, name)
    model, tokenizer = samples.load(name, wishes.attention or "sdpa", wishes.announce)

    def make(_expect: Mapping[str, Any]) -> Inputs:
        wishes.announce(f'no --text given, taking "{samples.SENTENCE}"')
        return checkpoints.encode(model, tokenizer, [samples.SENTENCE])

    return Implementation(words, model, make=make, tokenizer=tokenizer)


def _runnable(code: OwnCode) -> Callable[..., Any]:
    """Return the module or function that a name stands for; a factory is called."""
    value = code.value()
    doing = f"building {code.name or 'model'} of {code.place}"
    if isinstance(value, nn.Module | type):
        return built_model(value, doing, code.folder)
    if not callable(value):
        raise TargetError(
            doing,
            f"it is of type {type(value).__name__}",
            "name a module, a module class, a function that returns a module, or a function of "
            "(q, k, v)",
        )
    if _takes_tensors(value):
        function: Callable[..., Any] = value
        return function
    made = called(value, doing, code.folder)
    if not callable(made) or isinstance(made, type):
        found = "a class" if isinstance(made, type) else type(made).__name__
        raise TargetError(
            doing,
            f"it takes no arguments and returned {found}",
            "return a torch.nn.Module from it, or name a function of (q, k, v)",
        )
    return made  # type: ignore[no-any-return]


def _takes_tensors(function: Callable[..., Any]) -> bool:
    """Return whether a function is to be run with inputs, not called to get what is to be run."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of a builtin, such as F.scaled_dot_product_attention
        return True
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = any(p.default is p.empty and p.kind not in open_ended for p in parameters)
    return needed or (bool(parameters) and parameters[0].name in _QUERIES)


def _shared_folder(*sides: str) -> Path | None:
    """Return the folder from which both sides import, if it is one; a module's is the current.

    Refuses, before anything long begins, a file that doesn't exist.
    """
    folders: set[Path | None] = set()
    for words in sides:
        if words == DEFINITION or words.startswith(("arch:", "sample:")) or Path(words).is_dir():
            folders.add(None)
            continue
        path, _ = split(words)
        folders.add(home(path) if path else Path.cwd())
    return folders.pop() if len(folders) == 1 else None


def _is_pretrained(side: Implementation) -> bool:
    return any(base.__name__ == "PreTrainedModel" for base in type(side.run).__mro__)


# -- inputs --------------------------------------------------------------------------------------


def _tokenised(
    ours: Implementation, theirs: Implementation, wishes: Wishes, inputs: Inputs | None
) -> Inputs:
    doing = f"preparing {ours.name} and {theirs.name}"
    if inputs is not None:
        raise TargetError(doing, "both --inputs and --text were given", "give one")
    for side in (theirs, ours):
        if side.tokenizer is not None and isinstance(side.run, nn.Module):
            return checkpoints.encode(side.run, side.tokenizer, wishes.texts)
    raise TargetError(
        doing,
        "neither side has a tokenizer; only checkpoints and samples bring one",
        "give --inputs file.py:name instead of --text",
    )


def _declared(ours: Implementation, theirs: Implementation) -> Inputs | None:
    """Return the inputs of the reference's file, else of the candidate's.

    Of a module and a function, the module gets them: what doesn't fit it is left aside.
    """
    found = [side.declared for side in (theirs, ours) if side.declared is not None]
    if ours.is_module == theirs.is_module:
        return found[0] if found else None
    module = ours if ours.is_module else theirs
    return next((inputs for inputs in found if _fits(module.run, inputs)), None)


def _fits(run: Any, inputs: Inputs) -> bool:
    """Return whether a module's forward can be called with some inputs."""
    args, kwargs = (inputs, {}) if isinstance(inputs, tuple) else ((), inputs)
    try:
        inspect.signature(run.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _made(ours: Implementation, theirs: Implementation, expect: Mapping[str, Any]) -> Inputs | None:
    """Return inputs made for the reference, or for the candidate where that can't be done."""
    refusal: TargetError | None = None
    for side in (theirs, ours):
        if side.make is None:
            continue
        try:
            return side.make(expect)
        except TargetError as error:
            refusal = refusal or error
    if refusal is not None:
        raise refusal
    return None


def _as_tensors(
    inputs: Inputs | None, ours: Implementation, theirs: Implementation
) -> Inputs | None:
    """Return inputs with NumPy arrays as tensors, in the type in which a module computes."""
    if inputs is None:
        return None
    modules = [side.run for side in (theirs, ours) if isinstance(side.run, nn.Module)]
    types = [p.dtype for module in modules for p in module.parameters() if p.is_floating_point()]

    def tensor(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        made = torch.from_numpy(value.copy())
        return made.to(types[0]) if types and made.is_floating_point() else made

    if isinstance(inputs, tuple):
        return tuple(tensor(value) for value in inputs)
    return {name: tensor(value) for name, value in inputs.items()}
