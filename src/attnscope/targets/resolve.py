"""Reading every form of TARGET."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from attnscope.checks.expect import parse_expect
from attnscope.checks.residual.loading import loads_watched
from attnscope.errors import TargetError
from attnscope.targets import checkpoints, samples
from attnscope.targets.blame import describe
from attnscope.targets.made import make_inputs
from attnscope.targets.members import built_model, read_inputs
from attnscope.targets.own_code import opened, split
from attnscope.targets.target import Inputs, Target


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked of a target beside its name.

    inputs: "file.py:name" with the inputs, or None.
    texts: sentences to tokenise, one row of the batch each.
    expect: KEY=VALUE, over what the file defines.
    attention: "eager", "sdpa" or "flex" for Hugging Face models; None leaves it to the model.
    continued: the texts are to be continued, so that padding belongs on the left.
    announce: told, in words, what is about to take long.
    """

    inputs: str | None = None
    texts: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()
    attention: str | None = None
    continued: bool = False
    announce: Callable[[str], None] = lambda _message: None


def resolve(target: str, wishes: Wishes | None = None) -> Target:
    """Return the model that `target` stands for, with inputs that its forward accepts.

    Raises:
        TargetError: the target, its inputs or its `expect` can't be used.
        MissingExtraError: a package of the extra "hf" or "samples" is not installed.
    """
    wishes = wishes or Wishes()
    kind, _, rest = target.partition(":")
    if kind in {"arch", "sample"} and rest:
        found = (
            _architecture(target, rest, wishes) if kind == "arch" else _sample(target, rest, wishes)
        )
    elif Path(target).is_dir():
        model, tokenizer = checkpoints.load(Path(target), wishes.attention, wishes.announce)
        found = _with_words(target, model, tokenizer, wishes)
    else:
        found = _own_code(target, wishes)
    _fits(found)
    return found


def _architecture(target: str, name: str, wishes: Wishes) -> Target:
    checkpoints.need_transformers(f"building {target}")
    from attnscope.targets.architectures import build

    _no_texts(target, wishes)
    wanted = checkpoints.implementation(wishes.attention)
    built = build(name, attn_implementation=wanted)
    inputs = given_inputs(wishes.inputs) or built.inputs
    return Target(target, built.model, inputs, parse_expect(wishes.expect))


def _sample(target: str, name: str, wishes: Wishes) -> Target:
    need_sample(target, name)
    model, tokenizer = samples.load(name, wishes.attention or "sdpa", wishes.announce)
    return _with_words(target, model, tokenizer, wishes, default=samples.SENTENCE)


def need_sample(target: str, name: str) -> None:
    """Refuse a sample that there is not.

    Raises:
        TargetError: there is none of that name.
    """
    if name not in samples.SAMPLES:
        close = difflib.get_close_matches(name, samples.SAMPLES, n=1)
        hint = (
            f"did you mean sample:{close[0]}?" if close else "use sample:minilm or sample:smollm2"
        )
        raise TargetError(f"looking up {target}", f"there is no sample {name!r}", hint)


def _with_words(
    target: str, model: nn.Module, tokenizer: Any | None, wishes: Wishes, default: str | None = None
) -> Target:
    """Return the target of a checkpoint: given inputs first, then texts, then made ones."""
    texts = wishes.texts
    inputs = given_inputs(wishes.inputs)
    if inputs is not None and texts:
        raise TargetError(f"preparing {target}", "both --inputs and --text were given", "give one")
    if inputs is None and not texts and default is not None:
        wishes.announce(f'no --text given, taking "{default}"')
        texts = (default,)
    if inputs is None and texts:
        if tokenizer is None:
            raise TargetError(
                f"tokenising the text for {target}",
                "the checkpoint folder has no tokenizer that can be loaded",
                "save the tokenizer into it, or give --inputs file.py:name",
            )
        inputs = checkpoints.encode(model, tokenizer, texts, continued=wishes.continued)
    expect = parse_expect(wishes.expect)
    return Target(target, model, inputs or make_inputs(model, expect), expect, tokenizer)


def _own_code(target: str, wishes: Wishes) -> Target:
    """Return the target of a Python file or module."""
    _no_texts(target, wishes)
    if wishes.attention is not None:
        raise TargetError(
            f"preparing {target}",
            "--attention chooses between implementations of Hugging Face models",
            "leave it out: the file decides how its model computes attention",
        )
    with loads_watched(), opened(target) as code:
        model = built_model(
            code.value(), f"building {code.name or 'model'} of {code.place}", code.folder
        )
        expect = code.expect() | parse_expect(wishes.expect)
        inputs = given_inputs(wishes.inputs) or code.inputs()
    ready = inputs or make_inputs(model, expect)
    return Target(target, model, ready, expect, None, code.folder, code.maker())


def given_inputs(words: str | None, known: dict[str, ModuleType] | None = None) -> Inputs | None:
    """Return what --inputs names, or None when it wasn't given.

    known: files that were imported already, by path.

    Raises:
        TargetError: it names no value in a file, or one that can't be inputs.
    """
    if words is None:
        return None
    doing = f"reading --inputs {words}"
    path, name = split(words)
    if path is None or not name:
        raise TargetError(
            doing, "it does not name a value in a file", "write --inputs file.py:name"
        )
    with opened(words, known) as code:
        return read_inputs(code.value(), doing, code.folder)


def _no_texts(target: str, wishes: Wishes) -> None:
    if wishes.texts:
        raise TargetError(
            f"tokenising the text for {target}",
            "only checkpoints and samples bring a tokenizer",
            "give --inputs file.py:name instead of --text",
        )


def _fits(target: Target) -> None:
    """Refuse inputs that the model's forward can't be called with."""
    try:
        signature = inspect.signature(target.model.forward)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*target.args, **target.kwargs)
    except TypeError as error:
        wanted = ", ".join(signature.parameters)
        raise TargetError(
            f"giving the inputs to {type(target.model).__name__}",
            f"{describe(error)}; its forward takes ({wanted})",
            "give inputs as a dict of keyword arguments or a tuple of positional ones",
        ) from error
