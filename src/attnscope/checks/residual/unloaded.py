"""Weights of the attention that are as they were drawn, in a model that is loaded or trained."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from attnscope.checks.drawn import default_bounds, drawn, is_uniform_within
from attnscope.checks.subject.subject import Subject

__all__ = ["Unloaded", "evidence_of_training", "unloaded_weights"]

_ADDED = re.compile(r"lora|adapter|ia3|prompt|prefix|(^|[._])ip(_|$)|gate|_new|new_", re.IGNORECASE)
"""Parts that are added to a trained model in order to be trained."""

_NORMAL = 2.6
"""Kurtosis between those of uniform and of normal entries, nearer to the latter."""

_SPREAD = 1e-3
"""Standard deviation of the weights of a norm that was trained; they all start at 1."""


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A weight as it was drawn. largest: its largest entry; bound: None for a normal one."""

    name: str
    largest: float
    bound: float | None


def evidence_of_training(model: nn.Module, attended: Collection[str]) -> str | None:
    """Return a norm whose weights are no longer all alike; None: nothing seems trained.

    attended: modules that attend, whose own norms of q and k say nothing of the rest.
    """
    for path, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if any(path.startswith(f"{owner}.") or owner in {"", path} for owner in attended):
            continue
        if "norm" not in type(module).__name__.lower() or not isinstance(weight, Tensor):
            continue
        if weight.numel() > 1 and float(weight.detach().double().std()) > _SPREAD:
            return f"{path}.weight" if path else "weight"
    return None


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
    bias = getattr(holder, name.rpartition(".")[2].replace("weight", "bias"), None)
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
