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

from attnscope.errors import TargetError
from attnscope.targets import checkpoints, samples
from attnscope.targets.blame import describe, shown
from attnscope.targets.expect import parse_expect, read_expect
from attnscope.targets.files import home, import_file, import_module, importing_from
from attnscope.targets.made import make_inputs
from attnscope.targets.members import built_model, candidates, member, read_inputs
from attnscope.targets.target import Inputs, Target

FORMS = (
    "a TARGET is path/file.py:name, package.module:name, path/file.py, a checkpoint folder, "
    "arch:NAME, sample:minilm or sample:smollm2"
)


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
    inputs = _given_inputs(wishes) or built.inputs
    return Target(target, built.model, inputs, parse_expect(wishes.expect))


def _sample(target: str, name: str, wishes: Wishes) -> Target:
    if name not in samples.SAMPLES:
        close = difflib.get_close_matches(name, samples.SAMPLES, n=1)
        hint = (
            f"did you mean sample:{close[0]}?" if close else "use sample:minilm or sample:smollm2"
        )
        raise TargetError(f"looking up {target}", f"there is no sample {name!r}", hint)
    model, tokenizer = samples.load(name, wishes.attention or "sdpa", wishes.announce)
    return _with_words(target, model, tokenizer, wishes, default=samples.SENTENCE)


def _with_words(
    target: str, model: nn.Module, tokenizer: Any | None, wishes: Wishes, default: str | None = None
) -> Target:
    """Return the target of a checkpoint: given inputs first, then texts, then made ones."""
    texts = wishes.texts
    inputs = _given_inputs(wishes)
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
    path, name = _split(target)
    folder = home(path) if path else Path.cwd()
    with importing_from(folder):
        if path:
            module, place = import_file(path), shown(path)
        else:
            module, place = (
                import_module(target.partition(":")[0], folder),
                target.partition(":")[0],
            )
        value = member(module, name, place) if name else _the_model(module, place)
        model = built_model(value, f"building {name or 'model'} of {place}", folder)
        expect: dict[str, Any] = {}
        if getattr(module, "expect", None) is not None:
            expect = read_expect(module.expect, f"reading expect of {place}")
        expect |= parse_expect(wishes.expect)
        inputs = _given_inputs(wishes)
        if inputs is None and getattr(module, "inputs", None) is not None:
            inputs = read_inputs(module.inputs, f"reading inputs of {place}", folder)
    return Target(target, model, inputs or make_inputs(model, expect), expect, None, folder)


def _split(target: str) -> tuple[Path | None, str]:
    """Return the file of a target and the name in it; the file is None for a module's name."""
    doing = f"looking up {target}"
    left, sign, name = target.rpartition(":") if ":" in target else (target, "", "")
    path = Path(left)
    if path.suffix == ".py" or "/" in left or path.is_file():
        if not path.exists():
            raise TargetError(doing, f"there is no file {left}", _similar(path))
        if path.is_dir() or path.suffix != ".py":
            raise TargetError(doing, f"{left} is not a Python file", FORMS)
        if sign and not name:
            raise TargetError(doing, "nothing stands after the colon", "write path/file.py:name")
        return path.resolve(), name
    if not sign:
        raise TargetError(doing, f"there is no file or folder {target!r}", FORMS)
    if not all(part.isidentifier() for part in left.split(".")) or not name:
        raise TargetError(doing, f"{left!r} is no file and no module", FORMS)
    return None, name


def _similar(path: Path) -> str:
    folder = path.parent
    names = [other.name for other in folder.glob("*.py")] if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean {shown(folder / close[0])}?" if close else "check the path"


def _the_model(module: ModuleType, place: str) -> Any:
    """Return what a file defines as `model`."""
    if hasattr(module, "model"):
        return module.model
    names = candidates(module)
    hint = (
        f"name one of its own: {', '.join(f'{place}:{name}' for name in names)}" if names else FORMS
    )
    raise TargetError(f"looking for the model of {place}", "the file defines no `model`", hint)


def _given_inputs(wishes: Wishes) -> Inputs | None:
    """Return what --inputs names, or None when it wasn't given."""
    if wishes.inputs is None:
        return None
    doing = f"reading --inputs {wishes.inputs}"
    path, name = _split(wishes.inputs)
    if path is None or not name:
        raise TargetError(
            doing, "it does not name a value in a file", "write --inputs file.py:name"
        )
    folder = home(path)
    with importing_from(folder):
        return read_inputs(member(import_file(path), name, shown(path)), doing, folder)


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
