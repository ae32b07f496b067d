"""What a model hands out as attention weights, compared with the weights of its calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.scoring.assigned import line_of_return
from attnscope.checks.subject.code import is_of_library
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.side import Side

__all__ = ["Returned", "returned_otherwise"]

_NAMED = re.compile(r"attn|attention|align|weights$|maps?$")
_NOT_WEIGHTS = re.compile(r"hidden|state|output$|mask|embed|logits|loss|cache|past")
_ASKED = re.compile(r"^(need_weights|output_attentions|return_(attn|attention|weights|attentions))")
_PER_HEAD = re.compile(
    r"(every|each|per|all)\s+(the\s+)?(attention\s+)?heads?|batch,\s*\w*heads|map per head",
    re.IGNORECASE,
)
_FILLS = -1e4
"""Scores below are fills of a mask."""

_MIXED = "the weights with heads and samples mixed up"

_CLOSE = 1e-3
"""Largest difference, relative, of two tensors that are one but for a half type's rounding."""


@dataclass(frozen=True, slots=True)
class Returned:
    """One output that looks like weights and is something else.

    where: which output; what: what it is; call: whose; certain: an error, not a note.
    error: largest difference from the weights; remains: from what it is said to be.
    """

    where: str
    what: str
    call: Call
    shape: tuple[int, ...]
    error: float
    remains: float
    source: Source
    certain: bool = True
    when: str = ""


def returned_otherwise(subject: Subject) -> Iterator[Returned]:
    """Iterate over the outputs that are given as weights and are something else."""
    if subject.model is not None and is_of_library(subject.model):
        return
    seen: set[str] = set()
    for side, when in _runs(subject):
        for found in _in_run(subject, side, when):
            if found.where not in seen:
                seen.add(found.where)
                yield found


def _runs(subject: Subject) -> Iterator[tuple[Side, str]]:
    yield subject.base, ""
    for parameter in subject.given.parameters:
        name = parameter.name
        if _ASKED.match(name) and subject.given.values.get(name) in {None, False}:
            side = subject.watched(subject.given.with_values(**{name: True}))
            if side.error is None:
                yield side, f" with {name}=True"
    trained = subject.model is not None and subject.model.training
    if trained and list(_candidates(subject.base.output)):
        side = subject.watched(subject.given, train=True)
        if side.error is None:
            yield side, " in train mode"


def _in_run(subject: Subject, side: Side, when: str) -> Iterator[Returned]:
    calls = [call for call in side.trace if not call.recomputed]
    train = when == " in train mode"
    for where, tensor, named in _candidates(side.output):
        found = _what(tensor, calls, named=named, train=train)
        if found is None:
            continue
        call, what, error, remains = found
        value = side.tape.value_of(tensor)
        made = side.source_of(value)
        certain = what != "their mean over the heads" or _says_per_head(subject)
        laid = what == _MIXED  # the line that lays it out is at fault, not the one that returns it
        source = call.source if made is None else made if laid else line_of_return(made)
        shape = tuple(tensor.shape)
        yield Returned(where, what, call, shape, error, remains, source, certain, when)


def _candidates(output: Any) -> Iterator[tuple[str, Tensor, bool]]:
    """Iterate over the tensors of an output that may be weights: (where, tensor, by its name)."""
    for where, value, named in _leaves(output, "", named=False):
        first = where in {"", "[0]"}
        if value.is_floating_point() and (named or (not first and value.dim() >= 2)):
            yield where, value, named


def _leaves(value: Any, where: str, *, named: bool) -> Iterator[tuple[str, Tensor, bool]]:
    if isinstance(value, Tensor):
        yield where, value, named
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{where}.{key}", named=named or _is_named(str(key)))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key in value._fields:
            item = getattr(value, key)
            yield from _leaves(item, f"{where}.{key}", named=named or _is_named(key))
    elif isinstance(value, (tuple, list)):
        for at, item in enumerate(value):
            yield from _leaves(item, f"{where}[{at}]", named=named)
    elif hasattr(value, "__dataclass_fields__"):
        for key in value.__dataclass_fields__:
            item = getattr(value, key, None)
            yield from _leaves(item, f"{where}.{key}", named=named or _is_named(key))


def _is_named(key: str) -> bool:
    return bool(_NAMED.search(key.lower())) and not _NOT_WEIGHTS.search(key.lower())


def _what(
    tensor: Tensor, calls: list[Call], *, named: bool, train: bool
) -> tuple[Call, str, float, float] | None:
    """Return the call, and what of it a tensor is, where it is not its weights."""
    given = tensor.detach().double()
    wrong: tuple[Call, str, float, float] | None = None
    for call in calls:
        forms = _forms(call)
        if not forms:
            return None
        right = forms["weights"]
        if any(_gap(given, laid) <= _CLOSE for laid in _layouts(right)):
            return None
        if _is_keys_first(given, right, call):
            return None
        if wrong is None:
            wrong = _form_of(given, call, forms)
    if wrong is not None and (wrong[1] != "the weights after dropout" or train):
        return wrong
    if named and calls and wrong is None and not _fits(given, calls):
        what = "no (queries, keys) matrix at all"
        return calls[0], what, float("inf"), float("inf")
    return None


def _is_keys_first(given: Tensor, right: Tensor, call: Call) -> bool:
    """Return whether a tensor has keys before queries as the code around it has them."""
    try:
        spot = call.evidence.spot("weights")
        kept = spot.held.tensor.double() if spot is not None else None
    except UNREADABLE:
        return False
    return kept is not None and max(_gap(given, right.mT), _gap(given, kept)) <= _CLOSE


def _form_of(
    given: Tensor, call: Call, forms: dict[str, Tensor]
) -> tuple[Call, str, float, float] | None:
    right = forms["weights"]
    for what, form in forms.items():
        laid = [each for each in _layouts(form) if each.shape == given.shape]
        if what == "weights" or not laid:
            continue
        remains = min(_gap(given, each) for each in laid)
        error = min(_gap(given, each) for each in _as(right, given.shape))
        if remains <= _CLOSE < error:
            return call, what, error, remains
    batch, heads, queries, keys = right.shape
    turned = right.reshape(heads, batch, queries, keys)
    if heads != batch and given.shape == turned.shape and _gap(given, turned) <= _CLOSE:
        error = _gap(given, right.transpose(0, 1))
        return call, _MIXED, error, _gap(given, turned)
    return None


def _forms(call: Call) -> dict[str, Tensor]:
    """Return what is often taken for weights, (batch, heads, queries, keys) or less."""
    try:
        weights = call.weights().detach().double()
        scores = call.scores().detach().double()
    except UNREADABLE:
        return {}
    forms = {"weights": weights}
    if call.heads > 1:
        forms["their mean over the heads"] = weights.mean(1)
    forms["the weights after a second softmax"] = weights.softmax(-1)
    forms["the mean over the heads of a second softmax of the weights"] = weights.softmax(-1).mean(
        1
    )
    if call.queries == call.keys > 1:  # of other sizes, the shape says which axis is which
        forms["the weights with queries and keys exchanged"] = weights.mT
        forms["the scores' softmax over the queries"] = scores.softmax(2)
    forms["the scores before the softmax"] = scores
    forms["the log-sum-exp of the scores"] = scores.logsumexp(-1)
    forms["the logarithm of the weights"] = scores.log_softmax(-1)
    forms |= _other_recipes(call)
    try:
        met = call.evidence.rerun("weights", call.q, call.k, call.v)
        forms["the weights after dropout"] = met.double()
    except UNREADABLE:
        pass
    return forms


def _other_recipes(call: Call) -> dict[str, Tensor]:
    """Return weights as they would be without mask, bias or scale."""
    recipe = call.recipe
    if not isinstance(recipe.scale, int | float | Tensor) or recipe.normaliser != "softmax":
        return {}
    try:
        raw = recipe.raw_scores(call.q.detach().double(), call.k.detach().double())
    except UNREADABLE:
        return {}
    scaled = raw * recipe.scale
    found = {
        "the scores before scale and softmax": raw,
        "weights of q·k without a scale": raw.softmax(-1),
    }
    if recipe.mask.hides or recipe.bias is not None:
        parts = " and ".join(
            name
            for name, has in (("mask", recipe.mask.hides), ("bias", recipe.bias is not None))
            if has
        )
        found[f"weights computed again without the {parts}"] = scaled.softmax(-1)
        found["the scores before mask, bias and softmax"] = scaled
    if recipe.mask.hides and recipe.bias is not None:
        found["weights computed again without the mask"] = (scaled + recipe.bias).softmax(-1)
    return found


def _layouts(form: Tensor) -> Iterator[Tensor]:
    """Iterate over the ways to lay out (batch, heads, queries, keys), or less."""
    yield form
    if form.dim() < 4:
        if form.dim() == 3 and form.shape[0] == 1:
            yield form[0]
        return
    yield form.transpose(0, 1)
    yield form.transpose(1, 2)
    if form.shape[2] != form.shape[3]:
        yield form.mT
    yield form.permute(0, 2, 3, 1)
    yield form.flatten(0, 1)
    if form.shape[1] == 1:
        yield form[:, 0]
        if form.shape[2] != form.shape[3]:
            yield form[:, 0].mT
    if form.shape[0] == 1:
        yield form[0]
    if 1 in form.shape:
        yield form.squeeze()


def _as(right: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Return the weights in every layout of a shape; in none: of no likeness."""
    laid = [each for each in _layouts(right) if each.shape == shape]
    return laid or [torch.full(shape, float("inf"), dtype=torch.float64)]


def _gap(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, relative to the largest finite entry; inf: other shapes."""
    if a.shape != b.shape or not a.numel():
        return float("inf")
    a, b = _without_fills(a), _without_fills(b)
    hidden = a.isneginf() & b.isneginf()
    gap = (a - b).abs().masked_fill(hidden, 0.0)
    largest = b[b.isfinite()].abs()
    scale = float(largest.max()) if largest.numel() else 1.0
    return float(gap.nan_to_num(float("inf"), float("inf")).max()) / max(scale, 1e-12)


def _without_fills(tensor: Tensor) -> Tensor:
    return tensor.masked_fill(tensor <= _FILLS, float("-inf"))


def _fits(given: Tensor, calls: list[Call]) -> bool:
    """Return whether a tensor has the queries and the keys of some call among its axes."""
    sizes = list(given.shape)
    return any(
        call.queries in sizes
        and call.keys in [s for at, s in enumerate(sizes) if at != sizes.index(call.queries)]
        for call in calls
    )


def _says_per_head(subject: Subject) -> bool:
    """Return whether the author says, in words, that the maps are of single heads."""
    owners: list[Any] = [subject.run]
    if isinstance(subject.run, nn.Module):
        owners = [type(subject.run), type(subject.run).forward]
    return any(_PER_HEAD.search(inspect.getdoc(owner) or "") for owner in owners)
