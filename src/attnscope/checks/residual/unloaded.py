"""Weights of the attention that are as they were drawn, in a model that is loaded or trained."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from attnscope.checks.attributes import attribute
from attnscope.checks.drawn import default_bounds, drawn, is_uniform_within
from attnscope.checks.residual.loading import Load, loads_of
from attnscope.checks.subject.subject import Subject

__all__ = ["LeftOut", "Unloaded", "evidence_of_training", "left_out", "unloaded_weights"]

_ADDED = re.compile(r"lora|adapter|ia3|prompt|prefix|(^|[._])ip(_|$)|gate|_new|new_", re.IGNORECASE)
"""Parts that are added to a trained model in order to be trained."""

_OTHER_PARTS = re.compile(r"lm_head|classif|predict|pooler|embed|(^|[.])(head|cls|wte|wpe)([.]|$)")
"""Stored tensors that no attention is waiting for."""

_PACKED = 4
"""Projections that are packed into one tensor, at most."""

_NORMAL = 2.6
"""Kurtosis between those of uniform and of normal entries, nearer to the latter."""

_SPREAD = 1e-3
"""Standard deviation of the weights of a norm that was trained; they all start at 1."""

_FROM_ZERO = 4.0
"""Standard errors from zero of the mean of a norm's weights, up to which they may be drawn so."""

_OF_ONE_SIGN = 0.9
"""Share of a norm's weights that training leaves of one sign: they start at 1."""


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A weight as it was drawn. largest: its largest entry; bound: None for a normal one."""

    name: str
    largest: float
    bound: float | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Weights of the attention that a load left as they were.

    names: in the model; unused: stored tensors that fit no name and could be theirs; kept: whether
    the state dict was filled up with the model's own values.
    """

    names: tuple[str, ...]
    unused: tuple[str, ...]
    load: Load
    kept: bool


def left_out(subject: Subject) -> Iterator[LeftOut]:
    """Iterate over loads, watched while the model was built, that left weights of the attention."""
    model = subject.model
    if model is None:
        return
    known = dict(model.named_parameters(remove_duplicate=False))
    for path, load in loads_of(model):
        prefix = f"{path}." if path else ""
        waiting = [
            name
            for name in (*load.missing, *load.kept)
            if (full := prefix + name) in known
            and known[full].dim() > 1
            and load.untouched(name, known[full])
            and not _ADDED.search(full)
            and _is_attention(subject, full)
            and _is_filled(known[full])
        ]
        missing = [name for name in waiting if name in load.missing]
        unused = _that_fit(load, [tuple(known[prefix + name].shape) for name in missing])
        if missing and unused:
            yield LeftOut(tuple(prefix + name for name in missing), unused, load, kept=False)
            continue
        drawn_yet = {each.name for each in unloaded_weights(subject)}
        kept = tuple(prefix + n for n in waiting if n in load.kept and prefix + n in drawn_yet)
        if kept and _rest_was_loaded(subject, prefix, load, known):
            yield LeftOut(kept, (), load, kept=True)


def _rest_was_loaded(
    subject: Subject, prefix: str, load: Load, known: Mapping[str, Tensor]
) -> bool:
    """Return whether all weights beside the attention got other values, and there are some."""

    def beside(names: tuple[str, ...]) -> list[str]:
        full = [prefix + name for name in names]
        return [n for n in full if known[n].dim() > 1 and not _is_attention(subject, n)]

    return bool(beside(load.changed)) and not beside(load.kept)


def _is_attention(subject: Subject, name: str) -> bool:
    """Return whether a parameter belongs to a module that attended."""
    model = subject.model
    for path in dict.fromkeys(call.module for call in subject.calls):
        prefix = f"{path}." if path else ""
        if model is not None and name.startswith(prefix):
            inner = name.removeprefix(prefix)
            if _in_attention(model.get_submodule(path), path, inner):
                return True
    return False


def _is_filled(parameter: Tensor) -> bool:
    """Return whether a parameter holds more than one number: zeros and ones wait for training."""
    flat = parameter.detach().flatten()
    return flat.numel() > 1 and bool((flat != flat[0]).any())


def _that_fit(load: Load, shapes: list[tuple[int, ...]]) -> tuple[str, ...]:
    """Return the stored tensors that could be those of missing weights, packed otherwise perhaps.

    Nothing where they hold fewer numbers than are missing.
    """
    fitting = {
        name: shape
        for name, shape in load.unexpected.items()
        if not (_OTHER_PARTS.search(name) or _ADDED.search(name))
        and any(_fits(shape, wanted) for wanted in shapes)
    }
    stored = sum(math.prod(shape) for shape in fitting.values())
    return tuple(fitting) if stored >= sum(math.prod(shape) for shape in shapes) else ()


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether a tensor is of that shape, transposed, or a whole multiple or part of it."""
    if len(shape) != len(wanted):
        return False
    if sorted(shape) == sorted(wanted):
        return True
    few, many = sorted((shape[0], wanted[0]))
    return shape[1:] == wanted[1:] and few > 0 and many % few == 0 and many // few <= _PACKED


def evidence_of_training(model: nn.Module, attended: Collection[str]) -> str | None:
    """Return a norm whose weights are no longer all alike; None: nothing seems trained.

    attended: modules that attend, whose own norms of q and k say nothing of the rest.
    """
    for path, module in model.named_modules():
        weight = attribute(module, "weight")
        if any(path.startswith(f"{owner}.") or owner in {"", path} for owner in attended):
            continue
        if "norm" not in type(module).__name__.lower() or not isinstance(weight, Tensor):
            continue
        if weight.numel() > 1 and _is_trained_gain(weight.detach().double()):
            return f"{path}.weight" if path else "weight"
    return None


def _is_trained_gain(weight: Tensor) -> bool:
    """Return whether the weights of a norm differ, and are not drawn around zero either."""
    spread, middle = float(weight.std()), abs(float(weight.mean()))
    positive = float((weight > 0).double().mean())
    alike = max(positive, 1 - positive) >= _OF_ONE_SIGN
    return alike and spread > _SPREAD and middle > _FROM_ZERO * spread / weight.numel() ** 0.5


def unloaded_weights(subject: Subject) -> Iterator[Unloaded]:
    """Iterate over the weights of attention modules that are exactly as torch draws them."""
    model = subject.model
    if model is None:
        return
    trains = any(p.requires_grad for p in model.parameters())
    with_bias = _has_trained_biases(model)
    for path in dict.fromkeys(call.module for call in subject.calls):
        owner = model.get_submodule(path)
        for name, weight in owner.named_parameters():
            full = f"{path}.{name}" if path else name
            if weight.dim() != 2 or _ADDED.search(full) or (trains and not weight.requires_grad):
                continue
            if not _in_attention(owner, path, name):
                continue
            found = _as_drawn(owner, name, weight, with_bias=with_bias)
            if found is not None:
                yield Unloaded(full, float(weight.detach().abs().max()), found[0])


def _in_attention(owner: nn.Module, path: str, name: str) -> bool:
    """Return whether a weight is the attention's own: all of a module below the model's root."""
    if path:
        return True
    parts = name.split(".")
    return len(parts) <= 2 and not isinstance(_holder(owner, name), nn.Embedding)


def _holder(owner: nn.Module, name: str) -> nn.Module:
    return owner.get_submodule(name.rpartition(".")[0])


def _as_drawn(
    owner: nn.Module, name: str, weight: Tensor, *, with_bias: bool
) -> tuple[float | None] | None:
    """Return the bound of the initialiser in a tuple, (None,) for a normal one; None: trained."""
    holder = _holder(owner, name)
    if isinstance(holder, nn.Embedding) or drawn(weight) is None:
        return None
    bias = attribute(holder, name.rpartition(".")[2].replace("weight", "bias"))
    linear, xavier = default_bounds(weight)
    multi = isinstance(holder, nn.MultiheadAttention)
    if (
        not multi
        and is_uniform_within(weight, linear)
        and (bias is None or _is_default(bias, linear))
    ):
        return (linear,)
    empty = isinstance(bias, Tensor) and not bool(bias.detach().any())
    if is_uniform_within(weight, xavier) and (empty or (bias is None and multi)):
        return (xavier,)
    known = drawn(weight)
    normal = known is not None and known.kurtosis > _NORMAL
    return (None,) if normal and empty and with_bias and bias is not None else None


def _is_default(bias: Tensor, bound: float) -> bool:
    return is_uniform_within(bias, bound) or not bool(bias.detach().any())


def _has_trained_biases(model: nn.Module) -> bool:
    """Return whether some linear layer has a bias that is neither zero nor as it is drawn."""
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            bound = default_bounds(module.weight)[0]
            if bool(module.bias.detach().any()) and not is_uniform_within(module.bias, bound):
                return True
    return False
