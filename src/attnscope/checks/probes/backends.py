"""The same inputs by another way of the model's own, and the same tensors by other kernels."""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnscope.calls.call import Call
from attnscope.calls.held import version
from attnscope.calls.program import Value, map_leaves
from attnscope.calls.source import Source
from attnscope.checks.comparing import finite_gap
from attnscope.checks.course import course_of
from attnscope.checks.probe import probe
from attnscope.checks.probes.recomputed import what_parts
from attnscope.checks.probes.toggled_arguments import toggled_arguments
from attnscope.checks.rule import Skipped
from attnscope.checks.scoring.switches import Switch, switches_of, turned
from attnscope.checks.subject.code import is_of_library
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.side import Side

__all__ = ["Disagreement", "backends"]

_ASKED = re.compile(
    r"^(need_weights|output_attentions|return_(attn|attention|weights|attentions))$"
)
_APART = 1e-4
"""Relative difference from which two ways are called different, where noise says nothing else."""

_TRAIN = "train mode (nothing in it is random)"

_MOST_CALLS = 4
"""Calls whose tensors are handed to other kernels."""

_RANDOM = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)  # noqa: SLF001  their families


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two ways that give different results.

    switch: what was changed; largest: how far an output moves; noise: what is rounding; reason:
    how the recipes differ ("" where they don't); call, source: of the way that ran first.
    explained: what the other way does to the same q, k and v ("" where that is not known).
    in_blocks: whether the own way takes the keys in blocks.
    """

    switch: str
    largest: float
    noise: float
    reason: str
    call: Call | None
    source: Source | None
    explained: str = ""
    in_blocks: bool = False


@probe
def backends(subject: Subject) -> tuple[Disagreement, ...]:
    """Take the other way at every switch of the model, and run its kernels' tensors elsewhere."""
    found = []
    for switch, run, watched in _ways(subject):
        try:
            other = run()
        except Skipped:
            continue
        gap = finite_gap(subject.output, other)
        if not subject.output.numel():
            break
        limit = max(subject.noise, _APART * float(subject.output.abs().nan_to_num().max()))
        if gap is None or gap <= limit:
            continue
        side = watched()
        if not (
            _has_other_weights(subject.base, side)
            or _is_told_as_ignored(subject, side)
            or _is_told_as_leak(subject, side)
            or (switch == _TRAIN and _is_of_padding(subject))
        ):
            found.append(_explained(subject, switch, gap, limit, side))
    return (*found, *_by_kernel(subject), *_by_blocks(subject))


def _has_other_weights(ours: Side, theirs: Side) -> bool:
    """Return whether each way has parameters that the other does not read: two models in one."""
    first, second = ({side.parameters[v] for v in _read(side)} for side in (ours, theirs))
    return bool(first - second) and bool(second - first)


def _read(side: Side) -> Iterator[int]:
    return (value for value in side.parameters if side.tape.users.get(value))


def _is_told_as_ignored(subject: Subject, theirs: Side) -> bool:
    """Return whether AS208 says it: a mask is given and this way alone leaves it out."""
    calls = [call for call in theirs.trace if not call.recomputed]
    pairs = list(zip(subject.calls, calls, strict=False))
    bare = [not mine.recipe.mask.hides and their.recipe.mask.hides for mine, their in pairs]
    if not any(bare) or any(_difference(*pair, masks=False) for pair in pairs):
        return False
    try:
        return any(each.ignored for each in toggled_arguments(subject))
    except Skipped:
        return False


def _is_told_as_leak(subject: Subject, theirs: Side) -> bool:
    """Return whether AS201 says it: the way taken lacks the causal mask that the other one has."""
    if subject.causal is None or not subject.causal.value:
        return False
    calls = [call for call in theirs.trace if not call.recomputed]
    pairs = list(zip(subject.calls, calls, strict=False))
    bare = [_is_causal(their) and not _is_causal(mine) for mine, their in pairs]
    return any(bare) and not any(_difference(*pair, masks=False) for pair in pairs)


def _is_causal(call: Call) -> bool:
    return any(kind.startswith("causal") for kind in call.recipe.mask.kinds)


def _is_of_padding(subject: Subject) -> bool:
    """Return whether the ways agree where nothing is padding.

    What they leave at padded places is theirs to choose; what reads it is told by AS202.
    """
    given = subject.given
    for padding in subject.roles.padding:
        try:
            real = padding.real(given)
            if not bool(real.all()):
                given = padding.written(given, torch.ones_like(real))
        except UNREADABLE:
            return False
    if given is subject.given:
        return False
    try:
        pair = subject.main_output(given), subject.main_output(given, train=True)
    except Skipped:
        return False
    gap = finite_gap(*pair)
    limit = max(subject.noise, _APART * float(pair[0].abs().nan_to_num().max()))
    return gap is not None and gap <= limit


_Way = tuple[str, Callable[[], Tensor], Callable[[], Side]]


def _ways(subject: Subject) -> Iterator[_Way]:
    if subject.model is None or is_of_library(subject.model):
        return
    for switch in switches_of(subject.model):
        yield _by_switch(subject, switch)
    for parameter in subject.given.parameters:
        value = subject.given.values.get(parameter.name, parameter.default)
        if _ASKED.match(parameter.name) and isinstance(value, bool):
            given = subject.given.with_values(**{parameter.name: not value})
            yield _by_argument(subject, f"{parameter.name}={not value}", given)
    if _is_alike_in_train(subject):
        yield (
            _TRAIN,
            lambda: subject.main_output(train=True),
            lambda: subject.watched(subject.given, train=True),
        )


def _by_argument(subject: Subject, switch: str, given: Given) -> _Way:
    return switch, lambda: subject.main_output(given), lambda: subject.watched(given)


def _by_switch(subject: Subject, switch: Switch) -> _Way:
    def run() -> Tensor:
        with _turned(switch):
            return subject.main_output()

    def watched() -> Side:
        with _turned(switch):
            return subject.watched(subject.given)

    return str(switch), run, watched


@contextlib.contextmanager
def _turned(switch: Switch) -> Iterator[None]:
    """Turn a switch; what the author's own object refuses to be is no way to go."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(turned(switch))
        except (AttributeError, TypeError, ValueError) as error:
            raise Skipped(f"{switch} can't be set") from error
        yield


def _is_alike_in_train(subject: Subject) -> bool:
    """Return whether train mode may differ from eval mode in no known way."""
    if subject.model is None:
        return False
    if any(isinstance(m, _RANDOM) and getattr(m, "p", 1.0) for m in subject.model.modules()):
        return False
    if any(
        isinstance(v, torch.Generator) for m in subject.model.modules() for v in vars(m).values()
    ):
        return False  # it draws from a state of its own, which is put back before each run
    try:
        runs = [subject.main_output(train=True, seed=seed) for seed in (1, 2)]
        learns = _written(subject, subject.model, train=True)
        learns -= _written(subject, subject.model, train=False)
    except Skipped:
        return False
    return torch.equal(*runs) and not learns


def _written(subject: Subject, model: nn.Module, *, train: bool) -> set[str]:
    """Return the parameters and buffers that a run changes (a teacher's average, statistics)."""
    before, after = _state(model), {}
    handle = model.register_forward_hook(lambda *_: after.update(_state(model)))
    try:
        subject.raw(train=train)
    finally:
        handle.remove()
    return {name for name, seen in after.items() if before.get(name) != seen}


def _state(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Return which tensor each parameter and buffer is, and how often it was written to."""
    named = (*model.named_parameters(), *model.named_buffers())
    return {name: (id(tensor), version(tensor)) for name, tensor in named}


def _explained(
    subject: Subject, switch: str, gap: float, limit: float, other: Side
) -> Disagreement:
    for ours, their in zip(subject.base.located, other.located, strict=False):
        reason, explained = _difference(ours.call, their.call), what_parts(ours, their)
        if reason or explained:
            call = ours.call
            return Disagreement(switch, gap, limit, reason, call, call.source, explained)
    first = subject.calls[0] if subject.calls else None
    return Disagreement(switch, gap, limit, "", first, first.source if first else None)


def _difference(ours: Call, theirs: Call, *, masks: bool = True) -> str:
    """Return how two recipes differ, in words; masks: theirs count, too."""
    a, b = ours.recipe, theirs.recipe
    found = []
    scales = (a.scale, b.scale)
    if all(isinstance(s, int | float) for s in scales) and not math.isclose(*scales, rel_tol=1e-3):  # type: ignore[arg-type]
        found.append(f"scale {scales[0]:.4g} against {scales[1]:.4g}")
    if a.softcap != b.softcap:
        found.append(f"soft cap {a.softcap} against {b.softcap}")
    if masks and a.mask.kind != b.mask.kind:
        found.append(f"mask {a.mask.kind} against {b.mask.kind}")
    if (a.bias is None) != (b.bias is None):
        found.append("a bias in one of them only")
    if a.dropout != b.dropout:
        found.append(f"dropout {a.dropout} against {b.dropout}")
    return ", ".join(found)


def _by_blocks(subject: Subject) -> Iterator[Disagreement]:
    """Compare attention in blocks, whose sums are no softmax of its scores, with that softmax."""
    for call in subject.calls:
        recipe = call.recipe
        whole = call.kind != "eager" or recipe.unknown != ("normaliser",)
        if whole or not isinstance(recipe.scale, int | float) or course_of(subject, call):
            continue
        try:
            gap, limit = _from_softmax(call, recipe.scale)
        except UNREADABLE:
            continue
        if gap is not None and gap > limit:
            switch = "the softmax over all keys at once instead of its own blocks of them"
            yield Disagreement(switch, gap, limit, "", call, call.source, in_blocks=True)
            return


def _from_softmax(call: Call, scale: float) -> tuple[float | None, float]:
    """Return how far a context is from that of the softmax of its scores, and what is rounding."""
    recipe = call.recipe
    q, k, v = (each.detach().double() for each in (call.q, call.k, call.v))
    scores = recipe.raw_scores(q, k) * scale
    if recipe.mask.hides:
        hidden = ~recipe.mask.dense(call.queries, call.keys)
        scores = scores.masked_fill(hidden, float("-inf"))
    right = recipe.weigh(scores.softmax(-1), v)
    eps = torch.finfo(call.v.dtype).eps
    limit = max(64 * eps, 10 * _APART) * float(right.abs().nan_to_num().max())
    return finite_gap(right, call.context().detach().double()), limit


def _by_kernel(subject: Subject) -> Iterator[Disagreement]:
    """Run the fused kernels of the base run on their very tensors, by each backend there is."""
    done, tensors = 0, subject.base.tape.tensors

    def given(leaf: Any) -> Any:
        return tensors[leaf.index].detach() if isinstance(leaf, Value) else leaf

    for call in subject.calls:
        course = course_of(subject, call) if call.kind == "sdpa" else None
        operation = course.main[0] if course is not None and len(course.main) == 1 else None
        if operation is None or operation.function is not F.scaled_dot_product_attention:
            continue
        done += 1
        if done > _MOST_CALLS:
            return
        args, named = map_leaves(operation.args, given), map_leaves(dict(operation.kwargs), given)
        yield from _kernels(call, args, named)


def _kernels(call: Call, args: tuple[Any, ...], named: dict[str, Any]) -> Iterator[Disagreement]:
    if float(named.get("dropout_p", args[4] if len(args) > 4 else 0.0)):
        return
    plain = map_leaves(args, lambda x: x.contiguous() if isinstance(x, Tensor) else x)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            right = F.scaled_dot_product_attention(*plain, **named)
    except UNREADABLE:
        return
    eps = torch.finfo(right.dtype).eps
    limit = max(64 * eps, _APART) * max(float(right.abs().nan_to_num().max()), 1e-12)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        try:
            with warnings.catch_warnings(), torch.no_grad(), sdpa_kernel(backend):
                warnings.simplefilter("ignore")  # why a backend does not take them
                gap = finite_gap(right, F.scaled_dot_product_attention(*args, **named))
        except UNREADABLE:
            continue  # the backend does not take them
        if gap is not None and gap > limit:
            switch = f"{backend.name} on the strides as they were against MATH on contiguous copies"
            yield Disagreement(switch, gap, limit, "", call, call.source)
