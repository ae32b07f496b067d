"""`verify`: does a candidate compute what a reference computes, and if not, where first and why."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from attnscope.differ.cases.made import qkv
from attnscope.differ.cases.matrix import trials
from attnscope.differ.comparison import Comparison, Options
from attnscope.differ.pairing.idle import idle_parameters
from attnscope.differ.result import Verification
from attnscope.differ.sides.caches import emptied
from attnscope.differ.sides.outputs import compared_outputs
from attnscope.differ.sides.subject import Inputs, Subject, bind, takes_qkv
from attnscope.differ.weights import WeightMap, pair
from attnscope.errors import InputError

__all__ = ["verify"]

Implementation = nn.Module | Callable[..., Any] | ModuleType


def verify(  # noqa: PLR0913  each says what to compare, none changes how
    candidate: Implementation,
    reference: Implementation,
    *,
    inputs: Inputs | torch.Tensor | None = None,
    expect: Mapping[str, Any] | None = None,
    weights: str | Path | Mapping[str, Any] = "auto",
    gradients: bool = True,
    matrix: bool = True,
    seed: int = 0,
    factor: float = 1.0,
    names: tuple[str, str] | None = None,
) -> Verification:
    """Compare two implementations stage by stage, and say where they differ first and by what.

    Both are run once under watch, then again in float64, piece by piece: each stage of the
    candidate from the reference's earlier ones. So rounding does not show, and the stage that is
    wrong by itself is told from those that only follow. An explanation is a named change that was
    applied and made the stage agree.

    Args:
        candidate: a module, or a plain function of (q, k, v, …) in torch or NumPy.
        reference: the same; `attnscope.reference` for the definition.
        inputs: positional (a tuple or one tensor) or named (a dict); plain functions alone get
            random q, k and v when there are none.
        expect: what is intended, in the keys of the command line's `expect`; "padding" tells which
            rows carry no meaning.
        weights: "auto" leaves weights that correspond by value, under any names or packing, and
            else copies the reference's by name; "keep", "copy"; a dict or JSON file from names of
            the candidate to names of the reference. The candidate gets its own weights back.
        gradients: compare gradients of float inputs and paired parameters, too.
        matrix: compare in more cases, where the inputs can be varied: other lengths and batches,
            padding, types.
        seed: of the random state that both start from, and of everything that is made.
        factor: widens every limit; 1.0 is what arithmetic gives.
        names: what to call the two in the result.

    Raises:
        InputError: inputs are missing or don't fit, weights can't be paired, or a side raised.

    Example:
        >>> import torch, attnscope
        >>> def mine(q, k, v):
        ...     return (q @ k.mT / q.shape[-1]).softmax(-1) @ v
        >>> result = attnscope.verify(mine, torch.nn.functional.scaled_dot_product_attention)
        >>> result.equal, result.first_difference.stage, result.first_difference.explanation.key
        (False, 'scores', 'scale')
    """
    _check(expect, factor)
    sides = _subject(candidate, "candidate", names, 0), _subject(reference, "reference", names, 1)
    options = Options(
        dict(expect or {}), gradients=gradients, seed=seed, factor=factor, weights=weights
    )
    given = _inputs(inputs, sides, seed)
    with comparable(*sides) as notes, paired(sides, weights, given) as pairs:
        ours, theirs = (emptied(side, options.expect) for side in sides)
        comparison = Comparison(ours, theirs, given, options, pairs)
        result = comparison.run()
        if matrix and result.equal:
            result = _in_more_cases(result, comparison, declared=inputs is not None)
        return replace(result, notes=(*notes, *result.notes))


def _in_more_cases(result: Verification, comparison: Comparison, *, declared: bool) -> Verification:
    """Return the result with further inputs tried; the first case that differs decides."""
    tried = tuple(trials(comparison, declared=declared))
    wrong = next((trial for trial in tried if trial.case.equal is False), None)
    cases = tuple(trial.case for trial in tried)
    if wrong is None:
        return replace(result, cases=cases)
    first = replace(wrong.first, case=wrong.case.name) if wrong.first is not None else None
    return replace(result, cases=cases, equal=False, first_difference=first)


_EXPECTED = frozenset(
    "causal prefix padding window documents scale softcap batch_axis sequence_axis cache positions "
    "dropout".split()
)


def _check(expect: Mapping[str, Any] | None, factor: float) -> None:
    """Refuse what would be ignored."""
    unknown = sorted(set(expect or {}) - _EXPECTED)
    if unknown:
        raise InputError(
            "reading expect",
            f"the key {unknown[0]!r}",
            f"use one of {', '.join(sorted(_EXPECTED))}",
        )
    if not 0 < factor < float("inf"):
        raise InputError("reading factor", f"{factor}", "give a number above 0; 1 is the default")


def _subject(side: Implementation, role: str, names: tuple[str, str] | None, at: int) -> Subject:
    if isinstance(side, ModuleType):
        side = getattr(side, "attention", None) or side
    if isinstance(side, type) or not callable(side):
        raise InputError(
            f"comparing the {role}",
            f"{side!r}, which can't be called with tensors",
            "give a module (an instance, not its class) or a function",
        )
    known = getattr(side, "__name__", type(side).__name__)
    return Subject(names[at] if names is not None else known, side)


def _inputs(
    inputs: Inputs | torch.Tensor | None, sides: tuple[Subject, Subject], seed: int
) -> Inputs:
    if isinstance(inputs, torch.Tensor):
        return (inputs,)
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if inputs is not None:
        return tuple(inputs)
    for side in reversed(sides):
        if side.inputs is not None:
            return side.inputs
    if all(side.model is None and takes_qkv(side.run) for side in sides):
        return qkv(seed)
    raise InputError(
        f"comparing {sides[0].name} with {sides[1].name}",
        "no inputs, and a module whose inputs can't be made here",
        "give inputs=: a tensor, a tuple, or a dict of arguments",
    )


@contextlib.contextmanager
def paired(
    sides: tuple[Subject, Subject], wish: str | Path | Mapping[str, Any], inputs: Inputs
) -> Iterator[WeightMap | None]:
    """Give the candidate the reference's weights as far as it needs them, and its own back."""
    ours, theirs = sides[0].model, sides[1].model
    if ours is None or theirs is None or ours is theirs:
        yield None
        return
    try:
        found = pair(ours, theirs, wish)
    except InputError:  # perhaps for parameters that take no part, such as those of a pooler
        found = pair(ours, theirs, wish, idle=_idle(sides, inputs))
    with found.apply(ours):
        yield found


def _idle(sides: tuple[Subject, Subject], inputs: Inputs) -> tuple[frozenset[str], frozenset[str]]:
    """Return the parameters of each side on which nothing that is compared depends."""
    ours, theirs = (_output(side, inputs) for side in sides)
    pairs = compared_outputs(ours, theirs)
    if not pairs:
        return frozenset(), frozenset()
    made = [[pair.sides[at] for pair in pairs] for at in (0, 1)]
    found = [
        idle_parameters(side.model, output) if side.model is not None else frozenset()
        for side, output in zip(sides, made, strict=True)
    ]
    return found[0], found[1]


def _output(side: Subject, inputs: Inputs) -> Any:
    """Run a side once, unwatched; what it raises is said when it is compared."""
    args, kwargs, _ = bind(side, inputs, f"running {side.name}")
    with contextlib.suppress(Exception), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        return side.call(args, kwargs)
    return None


@contextlib.contextmanager
def comparable(candidate: Subject, reference: Subject) -> Iterator[tuple[str, ...]]:
    """Put both into eval mode where both would drop at random; modes are put back."""
    models = [side.model for side in (candidate, reference) if side.model is not None]
    if len(models) < 2 or not all(_drops(model) for model in models):
        yield ()
        return
    training = [module for model in models for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield ("both are in train mode and drop at random: compared in eval mode",)
    finally:
        for module in training:
            module.training = True


def _drops(model: nn.Module) -> bool:
    """Return whether some module of a model would drop something now."""
    return any(
        module.training
        and any(
            isinstance(rate, float) and 0 < rate < 1
            for name, rate in vars(module).items()
            if name == "p" or "drop" in name
        )
        for module in model.modules()
    )
