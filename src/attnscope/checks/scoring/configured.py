"""What a config asks of attention, compared with what was computed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from torch import nn

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.attributes import attribute
from attnscope.checks.course import Course, course_of
from attnscope.checks.defaults import line_that_leaves_out
from attnscope.checks.lines import is_installed
from attnscope.checks.listening import listening
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.masking.sharing import is_option, line_of_building
from attnscope.checks.operations import DIVIDES, MULTIPLIES
from attnscope.checks.rule import Skipped
from attnscope.checks.scoring.factors import factors_of
from attnscope.checks.scoring.implementations import has_own_function, own_line
from attnscope.checks.scoring.naming import name_of_scale
from attnscope.checks.scoring.rotary import angles_line, rotary_tables, turning
from attnscope.checks.statements import enclosing, mentions
from attnscope.checks.subject.subject import Subject

__all__ = [
    "Unused",
    "capped_unscaled",
    "configured_cap",
    "configured_scale",
    "unused_settings",
]

_SAME = 1e-3
_BASE = 1e-2
"""Relative difference of rotary bases: they are fitted from float32 tables."""

_CONFIGS = ("config", "cfg", "args", "hparams", "params", "conf")

_SCALES: dict[str, Callable[[float], float]] = {
    "query_pre_attn_scalar": lambda value: value**-0.5,
    "attention_multiplier": lambda value: value,
    "attn_scale": lambda value: value,
    "attention_scale": lambda value: value,
    "softmax_scale": lambda value: value,
    "attention_scaling": lambda value: value,
}
_CAPS = (
    "attn_logit_softcapping attn_logit_softcap attn_softcap attention_softcap softcap "
    "attn_logit_cap "
    "logit_cap attention_logit_cap attn_soft_cap"
).split()
_WINDOWS = "sliding_window window_size attention_window local_window attn_window window".split()
_BASES = "rope_theta rotary_emb_base rope_base rotary_base".split()
_SHARES = "partial_rotary_factor rotary_pct rope_pct rotary_percentage".split()
_SINKS = "use_sinks attention_sinks use_attention_sinks attn_sinks".split()


@dataclass(frozen=True, slots=True)
class Unused:
    """One setting of a config that the computation does not follow.

    window: what it asks for, where it is a window.
    """

    call: Call
    key: str
    wanted: Any
    found: Any
    text: str
    source: Source
    window: int | None = None


def unused_settings(subject: Subject) -> Iterator[Unused]:
    """Iterate over the settings, each once, at the first call that does not follow it.

    What a library computes by itself is taken to follow its own config.
    """
    written = [call for call in subject.calls if not is_installed(call.source.file)]
    calls = subject.calls if has_own_function(subject) else written
    if not calls:
        return
    settings = _settings(subject, calls[0])
    if not settings and "softcap" not in subject.expect:
        return
    for look in (_scale, _cap, _sink):
        yield from _first(look, subject, calls, settings)
    if written:
        yield from _window(subject, written, settings)
        yield from _rotary(subject, written, settings)


def configured_scale(subject: Subject, call: Call) -> float | None:
    """Return the scale that a config asks for; None: it says nothing of one."""
    asked = _number(_settings(subject, call), _SCALES)
    return None if asked is None else _SCALES[asked[0]](asked[1])


def configured_cap(subject: Subject, call: Call) -> float | None:
    """Return the cap of scores that a config asks for; None: it says nothing of one."""
    asked = _number(_settings(subject, call), _CAPS)
    return None if asked is None else asked[1]


def capped_unscaled(subject: Subject, call: Call) -> tuple[float, float] | None:
    """Return the cap and the scale, where q·k is capped as it is and then scaled.

    Of the scaled scores, which a cap is for, that is a cap of both multiplied.
    """
    declared = subject.expect.get("softcap", configured_cap(subject, call))
    scale, found = call.recipe.scale, call.recipe.softcap
    if declared is None or found is None or not isinstance(scale, int | float):
        return None
    cap, asked = float(declared), subject.expect.get("scale", configured_scale(subject, call))
    wanted = float(asked) if asked is not None else call.head_dim**-0.5
    meant = math.isclose(scale, wanted, rel_tol=_SAME) and not math.isclose(scale, 1.0)
    return (cap, wanted) if meant and math.isclose(found, cap * wanted, rel_tol=_SAME) else None


def _settings(subject: Subject, call: Call) -> dict[str, Any]:
    """Return the numbers and flags of the config of the model, or of the module of a call."""
    owners: list[Any] = [subject.module(call.module), subject.model]
    if isinstance(subject.model, nn.Module):
        owners += list(subject.model.children())
    found: dict[str, Any] = {}
    for owner in owners:
        for name in _CONFIGS:
            config = attribute(owner, name)
            if isinstance(config, dict):
                found = {**config, **found}
            elif attribute(config, "__dict__") is not None and not isinstance(
                config, nn.Module | type
            ):
                named = {k: attribute(config, k) for k in dir(type(config)) if k in _KNOWN}
                found = {**named, **vars(config), **found}
    inner = found.get("rope_parameters") or found.get("rope_scaling")
    if isinstance(inner, dict):
        found = {**inner, **found}
    return found


_KNOWN = frozenset((*_SCALES, *_CAPS, *_WINDOWS, *_BASES, *_SHARES, *_SINKS))


def _number(settings: Mapping[str, Any], keys: Any) -> tuple[str, float] | None:
    for key in keys:
        value = settings.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return key, float(value)
    return None


_Look = Callable[[Subject, Call, dict[str, Any]], Unused | None]


def _first(
    look: _Look, subject: Subject, calls: Sequence[Call], settings: dict[str, Any]
) -> Iterator[Unused]:
    found = (look(subject, call, settings) for call in calls)
    for each in [each for each in found if each is not None][:1]:
        course = course_of(subject, each.call) if is_installed(each.source.file) else None
        line = own_line(subject, course.product) if course is not None else None
        yield each if line is None else replace(each, source=line)


def _scale(subject: Subject, call: Call, settings: dict[str, Any]) -> Unused | None:
    asked = _number(settings, _SCALES)
    scale = call.recipe.scale
    if asked is None or not isinstance(scale, int | float):
        return None
    key, value = asked
    wanted = _SCALES[key](value)
    if math.isclose(scale, wanted, rel_tol=_SAME):
        return None
    name = name_of_scale(scale, call.head_dim, call.heads)
    text = (
        f"config.{key} is {value:g}, which makes the scale {wanted:.6g}, and scores are q·k times "
        f"{name}"
    )
    course = course_of(subject, call)
    factors = factors_of(subject, call)
    odd = [f.operation for f in factors if math.isclose(f.number, scale, rel_tol=_SAME)]
    if course is not None and not odd and course.softmax in course.main:
        after = course.main[course.main.index(course.softmax) + 1 :]  # of weights, too late
        odd = [op for op in after if op.name in MULTIPLIES | DIVIDES]
    source = course.line(*reversed(odd), course.product) if course is not None else call.source
    return Unused(call, key, wanted, scale, text, source)


def _cap(subject: Subject, call: Call, settings: dict[str, Any]) -> Unused | None:
    asked = _number(settings, _CAPS)
    course = course_of(subject, call)
    declared = _number(subject.expect, ["softcap"])
    if (asked is None and declared is None) or course is None:
        return None
    key, value = declared or asked or ("", 0.0)
    found = call.recipe.softcap
    if found is None and any(op.name.strip("_") == "tanh" for op in course.main):
        return None
    if found is not None and math.isclose(found, value, rel_tol=_SAME):
        return None
    if capped_unscaled(subject, call) is not None:
        return None
    how = "no cap is applied" if found is None else f"scores are capped at {found:g}"
    text = f"{'expect softcap' if declared else f'config.{key}'} is {value:g} and {how}"
    at = course.softmax if _can_cap(course) else course.product
    return Unused(call, key, value, found, text, course.line(at, course.product))


def _can_cap(course: Course) -> bool:
    """Return whether the code around the scores has a cap, which the run didn't come to.

    Then it is the softmax that takes them as they are; else the cap belongs to the product.
    """
    source = course.line(course.product)
    around = enclosing(source.file, source.line)
    function = next((each for each in around if isinstance(each, ast.FunctionDef)), None)
    return function is not None and mentions(function, "tanh")


def _sink(subject: Subject, call: Call, settings: dict[str, Any]) -> Unused | None:
    key = next((k for k in _SINKS if settings.get(k) is True), None)
    course = course_of(subject, call)
    known = call.recipe.normaliser == "softmax" and "sinks" not in call.recipe.unknown
    if key is None or course is None or not known or call.recipe.sinks is not None:
        return None
    text = f"config.{key} is True and no sink takes part: rows sum to one over the keys"
    return Unused(call, key, settings[key], None, text, course.line(course.softmax))


def _window(subject: Subject, calls: list[Call], settings: dict[str, Any]) -> Iterator[Unused]:
    asked = _number(settings, _WINDOWS)
    if asked is None or settings.get("use_sliding_window") is False:
        return
    key, value = asked
    plain = [call for call in calls if set(call.recipe.mask.kinds) <= {"causal", "padding"}]
    reaching = [call for call in plain if call.queries == call.keys > value]
    if len(reaching) < len(calls) or "mask" in calls[0].recipe.unknown:
        return
    call = reaching[0]
    course = course_of(subject, call)
    if course is None:
        return
    text = (
        f"config.{key} is {value:g} and no layer has a window: queries see keys up to "
        f"{call.keys - 1} positions away"
    )
    source = _line_without_window(subject, course)
    yield Unused(call, key, value, None, text, source, int(value))


def _line_without_window(subject: Subject, course: Course) -> Source:
    """Return who left the window out of a function that takes one, or what hides other keys."""
    for operation in reversed(course.aside):
        frames = [frame for frame in frames_at(subject, operation) if frame.own]
        for frame, caller in pairwise(frames):
            named = [v for name, v in frame.arguments.items() if "window" in name.lower()]
            if named and all(value is None for value in named):
                return caller.source()
    return _built_without_window(subject) or course.line(*reversed(course.hiding), course.softmax)


def _built_without_window(subject: Subject) -> Source | None:
    """Return the line that builds what could take a window, and is given none anywhere."""
    parts = subject.model.named_modules() if subject.model is not None else ()
    held = [
        (path, value)
        for path, module in parts
        for name, value in vars(module).items()
        if "window" in name.lower() and is_option(module, name)
    ]
    if not held or any(value is not None for _, value in held):
        return None
    return line_of_building(subject, held[0][0])


def _rotary(subject: Subject, calls: list[Call], settings: dict[str, Any]) -> Iterator[Unused]:
    tables = rotary_tables(subject)
    kind = settings.get("rope_type", "default")
    if not tables or kind not in {"default", None} or settings.get("rope_scaling"):
        return
    call = calls[0]
    operation = turning(subject, tables[0].value)
    source = _turned_at(subject, call, operation.source if operation is not None else None)
    base = _number(settings, _BASES)
    if base is not None and not any(math.isclose(t.base, base[1], rel_tol=_BASE) for t in tables):
        found = tables[0].base
        text = f"config.{base[0]} is {base[1]:g} and the rotary tables have the base {found:.6g}"
        made = angles_line(subject, tables[0].value)
        if made is None or is_installed(made.file):
            made = source
        made = line_that_leaves_out(subject.run, made, found) or made
        yield Unused(call, base[0], base[1], found, text, made)
    share = _number(settings, _SHARES)
    if share is None or share[1] > 1 or call.head_dim % 2:
        return
    wanted = int(call.head_dim * share[1])
    widths = {table.channels for table in tables}
    if wanted not in widths and widths == {call.head_dim}:
        text = (
            f"config.{share[0]} is {share[1]:g}, that is {wanted} of {call.head_dim} channels "
            "of a head, "
            f"and the rotary tables turn {call.head_dim}"
        )
        yield Unused(call, share[0], wanted, call.head_dim, text, source)


def _turned_at(subject: Subject, call: Call, source: Source | None) -> Source:
    """Return the line of the attention that has q turned, where a module of its own does it."""
    if source is None:
        return call.source
    owner = subject.module(call.module)
    kind = source.function.partition(".")[0]
    inner = (
        [name for name, module in owner.named_modules() if name and type(module).__name__ == kind]
        if owner is not None
        else []
    )
    if not inner or subject.model is None:
        return source
    path = f"{call.module}.{inner[0]}" if call.module else inner[0]
    try:
        with listening(subject.model) as heard:
            subject.raw()
    except Skipped:
        return source
    return next((each.source for each in heard if each.module == path and each.source), source)
