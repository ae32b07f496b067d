"""A call computed again by the definition, and what has to be changed for the recorded result.

The definition: softmax(scale · q·k + bias, over the visible keys) · v in float64, from the q, k and
v that were recorded, each query head with the kv head of its group, without dropout. What nothing
declares, neither `expect` nor a config, is taken from the recording: the mask, the bias, the sinks.
Where the result is another one, the named changes of `attnscope.explain` are tried on the
definition, until one gives what was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.checks.scoring.configured import configured_cap, configured_scale
from attnscope.checks.scoring.reading import is_of_a_library
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.located import Located
from attnscope.explain import Attention, Explanation, Scene, Sight, explain

__all__ = ["Intended", "by_definition", "evidence_of", "what_parts"]

_CLOSE = 1e-6
"""Largest difference, relative to the largest entry, of results that are one: constants of a
recorded run have gone through float32."""

_LARGEST = 1 << 21
"""Entries of a matrix of weights up to which changes are searched."""


@dataclass(frozen=True, slots=True)
class Intended:
    """What a rule knows that the definition has, where it isn't the usual one.

    scale, window: numbers; masked: the mask is what causal intent and declared padding make of it,
    whatever was recorded.
    """

    scale: float | None = None
    window: int | None = None
    masked: bool = False


_USUAL = Intended()


def evidence_of(
    subject: Subject, call: Call, intended: Intended = _USUAL, located: Located | None = None
) -> dict[str, Any]:
    """Return `recomputed` for the evidence of a finding; nothing where no change was found.

    located: of a call of another run than the base run.
    """
    found = by_definition(subject, call, intended, located)
    return {} if found is None else {"recomputed": _said(found, "the definition")}


def by_definition(
    subject: Subject, call: Call, intended: Intended = _USUAL, located: Located | None = None
) -> Explanation | None:
    """Return the change of the definition that gives what a call computed; None: there is none.

    None also where the call agrees with the definition, or can't be run again. Calls from the same
    line, with the same sizes and numbers, have one answer.
    """
    own = call.recipe
    scale = own.scale if isinstance(own.scale, int | float) else None
    sizes = (call.batch, call.heads, call.kv_heads, call.queries, call.keys, call.head_dim)
    key = ("recomputed", str(call.source), sizes, scale, own.mask.kind, intended)
    return subject.once(
        key, lambda: _found(subject, located or subject.located(call), call, intended)
    )


def what_parts(ours: Located, theirs: Located) -> str:
    """Return what another call does to the same q, k and v otherwise than this one, in words."""
    try:
        given, theirs_given = _tensors(ours), _tensors(theirs)
        if given[0].shape != theirs_given[0].shape:
            return ""
        same = [a.shape == b.shape for a, b in zip(given, theirs_given, strict=True)]
        own = ours.attention(*given)
        used = given if all(same) else theirs_given  # kv heads that one of them has expanded
        found = None if own is None else _explained(theirs, own, used)
    except UNREADABLE:
        return ""
    return "" if found is None else _said(found, "the way taken here")


def _said(found: Explanation, reference: str) -> str:
    text = found.text.replace("the reference", reference)
    return f"agrees to {found.remains:.0e} with {text}"


def _found(
    subject: Subject, located: Located | None, call: Call, intended: Intended
) -> Explanation | None:
    if located is None or len(located.calls) != 1:
        return None
    try:
        given = _tensors(located)
        reference = Attention(*given, _definition(subject, call, intended))
        return _explained(located, reference, given)
    except UNREADABLE:
        return None


def _tensors(located: Located) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (located.value(name).detach().double() for name in ("q", "k", "v"))
    return q, k, v


def _explained(
    candidate: Located, reference: Attention, given: tuple[Tensor, Tensor, Tensor]
) -> Explanation | None:
    """Return what makes of the reference what the candidate computes of what it is given."""
    (batch, heads, queries, _), keys = given[0].shape, given[1].shape[2]
    if batch * heads * queries * keys > _LARGEST:
        return None
    for stage in ("context", "weights"):  # a dropout shows in the weights alone
        scene = _scene(stage, candidate, reference, given)
        if scene.agrees(scene.expected):
            return None
        found = explain(scene)
        if found is not None:
            return found
    return None


def _scene(
    stage: str, candidate: Located, reference: Attention, given: tuple[Tensor, Tensor, Tensor]
) -> Scene:
    actual, expected = candidate.rerun(stage, *given), reference.stage(stage)
    largest = expected.abs().nan_to_num(0.0, 0.0, 0.0)
    size = _CLOSE * float(largest.max()) if largest.numel() else 0.0
    limit = torch.full((*expected.shape[:-1], 1), size, dtype=torch.float64)
    own, width = candidate.attention(*given), _width(candidate)
    return Scene(
        stage,
        Sight({stage: actual}, own, width=width, call=candidate.call),
        Sight({stage: expected}, reference, width=width, call=candidate.call),
        limit,
    )


def _width(located: Located) -> int | None:
    """Return the features of what the projection of q receives; None: it is not known."""
    value = located.received.get("q")
    return None if value is None else int(located.tape.tensors[value].shape[-1])


def _definition(subject: Subject, call: Call, intended: Intended) -> Recipe:
    own = call.recipe
    grouped = call.kv_heads not in {1, call.heads}
    mask = _intended_mask(subject, call) if intended.masked else None
    if intended.window is not None:
        mask = _with_window(mask or own.mask, call, intended.window)
    cap = _cap(subject, call)
    return Recipe(
        scale=intended.scale if intended.scale is not None else _scale(subject, call),
        mask=mask if mask is not None else own.mask,
        bias=own.bias,
        softcap=cap if cap is not None else own.softcap,
        sinks=own.sinks,
        group=call.heads // max(call.kv_heads, 1),
        expansion="repeat_interleave" if grouped else "none",
        empty_row=own.empty_row,
    )


def _scale(subject: Subject, call: Call) -> float | Tensor:
    """Return the scale that is declared, configured or, in a library's module, applied."""
    if "scale" in subject.expect:
        return float(subject.expect["scale"])
    configured = configured_scale(subject, call)
    if configured is not None:
        return configured
    own = call.recipe.scale
    learned = isinstance(own, Tensor)
    return own if own is not None and (learned or is_of_a_library(subject, call)) else _usual(call)


def _usual(call: Call) -> float:
    return float(call.head_dim**-0.5)


def _cap(subject: Subject, call: Call) -> float | None:
    if "softcap" in subject.expect:
        return float(subject.expect["softcap"])
    return configured_cap(subject, call)


def _intended_mask(subject: Subject, call: Call) -> Mask | None:
    """Return the mask of causal intent and padding; None: nothing says that there is one."""
    stream, causal = subject.roles.main, subject.causal
    if stream is None:
        return None
    parts: Mapping[str, Tensor | None] = {
        "causal": _causal(call) if causal is not None and causal.value else None,
        "padding": _real_keys(subject, call),
    }
    known = [part for part in parts.values() if part is not None]
    if not known:
        return None
    shown = known[0] & known[-1]
    return Mask.from_tensor(shown, call.queries, call.keys)


def _with_window(mask: Mask, call: Call, window: int) -> Mask:
    """Return a mask in which each query sees no more than the last `window` keys up to its own."""
    key, own = torch.arange(call.keys), torch.arange(call.queries) + call.keys - call.queries
    near = (key > own[:, None] - window) & (key < own[:, None] + window)
    shown = mask.dense(call.queries, call.keys) & near
    return Mask.from_tensor(shown, call.queries, call.keys)


def _causal(call: Call) -> Tensor | None:
    if call.keys < call.queries:
        return None
    whole = torch.ones(call.queries, call.keys, dtype=torch.bool)
    return whole.tril(call.keys - call.queries)[None, None]


def _real_keys(subject: Subject, call: Call) -> Tensor | None:
    for padding in subject.roles.padding:
        real = padding.real(subject.given)
        if padding.given and tuple(real.shape) == (call.batch, call.keys):
            return real[:, None, None]
    return None
