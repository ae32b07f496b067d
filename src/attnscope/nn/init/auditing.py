"""Whether attention starts uniform, sane or saturated, and which scheme drew its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from attnscope.calls.call import Call
from attnscope.capture import record
from attnscope.errors import InputError
from attnscope.nn.init.finding import Part, find_parts
from attnscope.nn.init.fitting import Spread, candidates, choose, expected, fits, spread_of
from attnscope.nn.init.limits import Verdict, near, verdict, verdict_of
from attnscope.nn.init.result import Audit, CallAudit, Projection
from attnscope.nn.init.roles import RESIDUAL, Place, role_of
from attnscope.nn.init.schemes import Scheme
from attnscope.nn.init.schemes.base import scheme_given
from attnscope.nn.init.sharpness import Sharpness, sharpness_of
from attnscope.nn.init.watching import Runs, watching

__all__ = ["audit"]

_DOING = "auditing the initial values of a model"


def audit(
    model: nn.Module | Callable[..., Any],
    /,
    *args: Any,
    scheme: Scheme | None = None,
    **kwargs: Any,
) -> Audit:
    """Run `model(*args, **kwargs)` once and judge how its attention starts.

    For each projection of each attention call: the std found, and expected by its scheme (a third
    of a packed projection by itself). For each call: std of q, k, ``q·k`` and scores, the entropy
    of the weights as a share of ``log n`` (n visible keys), the std of the attention's output over
    that of its input, and a verdict with limits that `limits` derives for rows of just these
    lengths. The verdict looks at the scores without their bias, since ALiBi and the like are sharp
    on purpose; it is "mixed" where heads are saturated and others are not (see `CallAudit`).

    Args:
        model: any module, in the mode and grad mode it is in; its random state moves on as in any
            run. A function has no parameters to name, so its calls are judged alone.
        *args: handed to the model.
        scheme: what the weights should be drawn by; None: for each weight, of the schemes that
            could have drawn it, the one that explains most weights of the model.
        **kwargs: handed to the model.

    Raises:
        InputError: the model made no attention call that could be seen, or can't be called; or the
            scheme is none.

    Source: the limits, Derrida 1981 (see `limits`); the formulas, each scheme's own.

    Example:
        >>> import torch
        >>> from attnscope.nn import init
        >>> mha = torch.nn.MultiheadAttention(64, 4, batch_first=True)
        >>> x = torch.randn(2, 32, 64)
        >>> found = init.audit(mha, x, x, x, need_weights=False)
        >>> found[0]["q"].scheme, found[0]["o"].scheme, found.verdict
        ('xavier-uniform', 'torch-default', 'sane')
    """
    if not callable(model):
        raise InputError(
            _DOING, f"a model of type {type(model).__name__}", "give a module, or a function"
        )
    if scheme is not None:
        scheme_given(_DOING, scheme)
    root = model if isinstance(model, nn.Module) else nn.Module()
    with record(model) as trace, watching(root, trace) as runs:
        model(*args, **kwargs)
    if not trace.calls:
        seen = "; ".join(f"{one.module}: {one.reason}" for one in trace.unseen)
        raise InputError(
            doing=_DOING,
            found=f"no attention call{f' ({seen})' if seen else ''}",
            todo="give a model and inputs with which attnscope.trace shows calls",
        )
    residuals = sum(role_of(name) in RESIDUAL for name in _matrices(root))
    found = [(call, find_parts(root, call, runs)) for call in trace]
    judged = _judge([(call, part) for call, parts in found for part in parts], residuals, scheme)
    return Audit(
        calls=tuple(_call(call, parts, judged, runs) for call, parts in found),
        scheme=scheme.name if scheme is not None else None,
        unseen=tuple(f"{one.module}: {one.reason}" for one in trace.unseen),
    )


def _matrices(root: nn.Module) -> list[str]:
    return [name for name, one in root.named_parameters() if one.dim() > 1]


# -- projections -----------------------------------------------------------------------------------


def _judge(
    parts: list[tuple[Call, Part]], residuals: int, given: Scheme | None
) -> dict[int, Projection]:
    """Return the judgement of each part, by its identity; all of a model are judged together."""
    places = [_place(call, part, residuals) for call, part in parts]
    spreads = [spread_of(part.weight) for _, part in parts]
    fitting = [
        tuple(one for one in candidates(place) if fits(spread, place, one))
        for place, spread in zip(places, spreads, strict=True)
    ]
    chosen = choose(fitting) if given is None else [given] * len(parts)
    rows = zip(parts, places, spreads, fitting, chosen, strict=True)
    return {
        id(part): _projection(part, place, spread, fit, one)
        for (_, part), place, spread, fit, one in rows
    }


def _place(call: Call, part: Part, residuals: int) -> Place:
    features, fan_in = part.weight.shape
    return Place(part.side, fan_in, features, part.drawn_rows, residuals, call.head_dim)


def _projection(
    part: Part,
    place: Place,
    spread: Spread,
    fitting: tuple[Scheme, ...],
    scheme: Scheme | None,
) -> Projection:
    return Projection(
        side=part.side,
        name=part.name,
        found_by=part.found_by,
        fan_in=place.fan_in,
        fan_out=place.fan_out,
        drawn_fan_out=part.drawn_rows,
        std=spread.std,
        scheme=scheme.label(place) if scheme is not None else None,
        expected=expected(scheme, place) if scheme is not None else None,
        fits=scheme is not None and fits(spread, place, scheme),
        candidates=tuple(dict.fromkeys(one.label(place) for one in fitting)),
    )


# -- calls -----------------------------------------------------------------------------------------


def _call(call: Call, parts: list[Part], judged: dict[int, Projection], runs: Runs) -> CallAudit:
    sharpness = sharpness_of(call)
    each = _verdicts(sharpness)
    entered, left = _in_and_out(call, parts, runs)
    return CallAudit(
        index=call.index,
        module=call.module,
        heads=call.heads,
        head_dim=call.head_dim,
        projections=tuple(judged[id(part)] for part in parts),
        sharpness=sharpness,
        input_std=entered,
        output_std=left,
        verdict=verdict_of(each, _mean_verdict(sharpness)),
        near=_near(sharpness),
        saturated_heads=each.count("saturated"),
        uniform_heads=each.count("uniform"),
        notes=(*_missing(parts), *sharpness.notes),
    )


def _mean_verdict(sharpness: Sharpness) -> Verdict:
    entropy = sharpness.entropy
    if entropy is None or not entropy.content:
        return "unknown"
    share = sum(entropy.content) / len(entropy.content)
    return verdict(share, entropy.low, entropy.high)


def _near(sharpness: Sharpness) -> Verdict | None:
    entropy = sharpness.entropy
    if entropy is None or not entropy.content:
        return None
    return near(sum(entropy.content) / len(entropy.content), entropy.low, entropy.high)


def _verdicts(sharpness: Sharpness) -> list[Verdict]:
    entropy = sharpness.entropy
    if entropy is None:
        return []
    return [verdict(share, entropy.low, entropy.high) for share in entropy.content]


def _in_and_out(call: Call, parts: list[Part], runs: Runs) -> tuple[float | None, float | None]:
    """Return the std of what entered the q projection and of what left the output projection.

    A weight that is used past its own module (``in_proj_weight``) belongs to that around the call.
    """
    around = runs.around(call.index)
    ends: dict[str, float] = {}
    for part in parts:
        owner = around if around is not None and _owns(around.name, part) else None
        if part.side == "q":
            run = runs.last(part.module, call.index) or owner
            if run is not None:
                ends.setdefault("in", run.input_std)
        elif part.side == "o":
            after = (one for one in runs.following(call.index) if one.name == part.module)
            run = next(after, owner)
            if run is not None:
                ends.setdefault("out", run.output_std)
    return ends.get("in"), ends.get("out")


def _owns(module: str, part: Part) -> bool:
    return not module or part.name.startswith(f"{module}.")


def _missing(parts: list[Part]) -> list[str]:
    sides = {part.side for part in parts}
    notes = [
        f"projection {side}: no parameter was found behind it, neither by what was recorded nor by "
        "a name next to the call"
        for side in ("q", "k", "v", "o")
        if side not in sides
    ]
    notes += [
        f"projection {part.side}: {part.name} holds it among other rows, which could not be told "
        "apart"
        for part in parts
        if not part.exact
    ]
    return notes
