"""What a model keeps of the tokens before: how a forward takes it, and how it is emptied."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from attnscope.differ.sides.subject import Subject
from attnscope.errors import InputError

__all__ = [
    "RESETS",
    "SELF",
    "Cache",
    "cache_in",
    "cache_of",
    "copied",
    "emptied",
    "empty_cache",
    "fresh",
    "reset_of",
    "tensors_held",
]

_HUGGING_FACE = ("past_key_values", "cache")
"""What Hugging Face calls the past beside `use_cache`; `cache` in the newer versions."""

_DEEPEST = 4
"""Containers in containers in which a module's own cache is looked for."""

SELF = "self"
"""The name of a cache that the module keeps itself."""

RESETS = (
    "reset",
    *(f"{verb}_{what}" for verb in ("reset", "clear", "empty") for what in (
        "cache", "caches", "kv_cache", "kv_caches", "kv", "state",
    )),
)  # fmt: skip
"""Methods that empty it."""

_FLAGS = frozenset(
    "use_cache use_kv_cache use_kvcache use_caching with_cache return_cache return_past "
    "return_kv return_kv_cache cache_kv".split()
)
"""Arguments, False by themselves, with which a forward keeps and returns what it needs later."""


@dataclass(frozen=True, slots=True)
class Cache:
    """How a forward takes and gives its cache.

    argument: its name, and that of the output's attribute; "self": the module keeps it. flags:
    further arguments that make it give one.
    """

    argument: str
    flags: Mapping[str, Any]


def emptied(subject: Subject, expect: Mapping[str, Any]) -> Subject:
    """Return a subject that nothing was run with: a copy where it keeps its cache itself.

    To be asked for before the first run.
    """
    return fresh(subject) if expect.get("cache") == SELF else subject


def fresh(subject: Subject) -> Subject:
    """Return a copy of a subject whose own caches are empty, as far as it can empty them."""
    if subject.model is None:
        return subject
    model = copied(subject.model)
    for module in model.modules():
        reset = reset_of(module)
        if reset is not None:
            reset()
    return Subject(subject.name, model, subject.inputs)


def reset_of(module: nn.Module) -> Callable[[], Any] | None:
    """Return the method that empties what a module keeps; None: it has none."""
    return next((found for n in RESETS if callable(found := getattr(module, n, None))), None)


def copied(model: nn.Module) -> nn.Module:
    """Return a deep copy of a module, of tensors that it keeps from a run without their graph."""
    held = {id(tensor): tensor for m in model.modules() for tensor in tensors_held(vars(m))}
    memo = {key: t.detach().clone() for key, t in held.items() if not t.is_leaf}
    return copy.deepcopy(model, memo)


def tensors_held(value: Any, depth: int = 0) -> Iterator[Tensor]:
    """Iterate over the tensors in containers and plain objects, of a few levels."""
    if isinstance(value, Tensor):
        yield value
    if depth > _DEEPEST or isinstance(value, Tensor | nn.Module | type) or callable(value):
        return
    held: Iterable[Any] = vars(value).values() if hasattr(value, "__dict__") else ()
    if isinstance(value, Mapping):
        held = value.values()
    elif isinstance(value, list | tuple):
        held = value
    for each in held:
        yield from tensors_held(each, depth + 1)


def cache_of(subject: Subject, expect: Mapping[str, Any]) -> Cache | None:
    """Return how a forward takes a cache: as declared, or as Hugging Face's; None: not at all."""
    if subject.model is None:
        return None
    parameters = subject.parameters_of_run()
    taken = {parameter.name for parameter in parameters}
    passed_on = any(p.kind is p.VAR_KEYWORD for p in parameters) and hasattr(
        subject.model, "config"
    )
    flags = {p.name: True for p in parameters if p.name in _FLAGS and not p.default}
    if "use_cache" in taken or passed_on:
        flags["use_cache"] = True
    said = expect.get("cache")
    if said == SELF or said in taken:
        return Cache(str(said), flags)
    named = next((name for name in _HUGGING_FACE if name in taken), None)
    return Cache(named, flags) if named is not None and "use_cache" in flags else None


def empty_cache(subject: Subject) -> Any:
    """Return the cache to begin with: what the module makes, else None."""
    make: Callable[[], Any] | None = getattr(subject.model, "new_cache", None)
    return make() if make is not None else None


def cache_in(output: Any, cache: Cache, before: Any) -> Any:
    """Return the cache that a forward gave, or the one it was given, which may have grown.

    Raises:
        InputError: there is none.
    """
    if cache.argument == SELF:
        return None
    found = getattr(output, cache.argument, None)
    if found is None and isinstance(output, Mapping):
        found = output.get(cache.argument)
    if found is None and type(output) in {tuple, list} and len(output) > 1:
        found = output[-1]
    if found is None:
        found = before
    if found is None:
        raise InputError(
            "decoding with a cache",
            f"the output has no {cache.argument}",
            "return it as that attribute, or as the last item of a tuple",
        )
    return found
