"""Conditions before tensors: what both sides ran under, compared before any number is.

Most differences between two implementations are none of the code: one side in train mode, an
active dropout, another dtype, a missing BOS token, padding on the other side, another rotary
base. They are compared first and reported as what they are; equal ones are listed too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from attnscope.differ.given_inputs import compare_inputs
from attnscope.differ.pairing.geometry import CONFIGS
from attnscope.differ.pairing.weightmap import WeightMap
from attnscope.differ.settings import settings_of

__all__ = ["Condition", "compare_conditions"]

_MOST = 3  # names that are listed, the rest counted
_DROPOUT = (
    "dropout attention_dropout attn_dropout dropout_p p_dropout attn_pdrop dropout_prob".split()
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that both sides ran under, in words, and whether it is the same.

    note: where it differs first, or what it means; empty where nothing is to be said.
    """

    name: str
    candidate: str
    reference: str
    equal: bool
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the condition as plain data."""
        return {
            "name": self.name,
            "candidate": self.candidate,
            "reference": self.reference,
            "equal": self.equal,
            "note": self.note,
        }

    def __str__(self) -> str:
        """Return the condition in one line."""
        note = f" ({self.note})" if self.note else ""
        if self.equal:
            return f"{self.name}: {self.candidate}{note}"
        return f"{self.name}: {self.candidate}, the reference {self.reference}{note}"


def compare_conditions(
    candidate: object,
    reference: object,
    *,
    inputs: tuple[object, object] | None = None,
    weights: WeightMap | None = None,
    seeds: tuple[int | None, int | None] | None = None,
    versions: tuple[Mapping[str, str], Mapping[str, str]] | None = None,
) -> tuple[Condition, ...]:
    """Return what both sides ran under, equal or not, in the order in which to read it.

    Args:
        candidate: the module or function under test.
        reference: the module or function it is compared with; of a function, only what it was
            given is known.
        inputs: of the candidate and of the reference: a dict (keyword arguments), a tuple
            (positional) or a tensor.
        weights: the pairs of their weights, whose checksums are compared.
        seeds: with which each side was run.
        versions: of the packages that made each side, where one was loaded from what was saved.

    Example:
        >>> [str(c) for c in compare_conditions(nn.Linear(2, 2), nn.Linear(2, 2).eval())][0]
        'mode: train, the reference eval'
    """
    found: list[Condition] = []
    if isinstance(candidate, nn.Module) and isinstance(reference, nn.Module):
        for name, read in _READ.items():
            ours, theirs = read(candidate), read(reference)
            if ours or theirs:
                found.append(_condition(name, ours, theirs, _NOTES.get(name, "")))
    found.append(_condition("autocast", _autocast(), _autocast()))
    precision = torch.get_float32_matmul_precision()
    found.append(_condition("float32 products", precision, precision))
    if seeds is not None:
        found.append(_condition("seed", str(seeds[0]), str(seeds[1]), "random numbers differ"))
    if inputs is not None:
        configs = [_config_of(candidate), _config_of(reference)]
        found += [Condition(*told) for told in compare_inputs(*inputs, configs)]
    if isinstance(candidate, nn.Module) and isinstance(reference, nn.Module):
        found += _compare_settings(candidate, reference)
    if versions is not None:
        found += [
            _condition(f"{name} version", str(versions[0].get(name)), str(versions[1].get(name)))
            for name in sorted({*versions[0], *versions[1]})
        ]
    if weights is not None:
        found.append(_compare_weights(weights))
    return tuple(found)


def _condition(name: str, candidate: str, reference: str, note: str = "") -> Condition:
    equal = candidate == reference
    return Condition(name, candidate or "none", reference or "none", equal, "" if equal else note)


# modules


def _mode(module: nn.Module) -> str:
    modes = {name: part.training for name, part in module.named_modules()}
    training = [name or "the model itself" for name, on in modes.items() if on]
    if len(training) in {0, len(modes)}:
        return "train" if training else "eval"
    few, word = training, "train"
    if len(training) > len(modes) - len(training):
        few, word = [name or "the model itself" for name, on in modes.items() if not on], "eval"
    other = "eval" if word == "train" else "train"
    return f"{other}, but {word} in {_some(few)}"


def _dropout(module: nn.Module) -> str:
    """Return the probabilities of dropout that is active, with how many modules have each."""
    found = Counter[float]()
    for part in module.modules():
        if not part.training:
            continue
        if isinstance(part, nn.modules.dropout._DropoutNd):  # noqa: SLF001  their common class
            found[part.p] += 1
            continue
        for name in _DROPOUT:
            value = vars(part).get(name)
            if isinstance(value, float):
                found[value] += 1
    active = {p: count for p, count in sorted(found.items()) if p > 0}
    return ", ".join(f"{p:g} in {count} places" for p, count in active.items()) or "none active"


def _dtypes(module: nn.Module) -> str:
    return _counted(
        str(p.dtype).removeprefix("torch.") for p in module.parameters() if p.is_floating_point()
    )


def _devices(module: nn.Module) -> str:
    return _counted(str(parameter.device) for parameter in module.parameters())


def _kernel(module: nn.Module) -> str:
    value = getattr(getattr(module, "config", None), "_attn_implementation", None)
    return value if isinstance(value, str) else ""


def _counted(values: Iterable[str]) -> str:
    """Return distinct values, the commonest first, without their number: sides differ in size."""
    return ", ".join(sorted(set(values)))


_READ: dict[str, Callable[[nn.Module], str]] = {
    "mode": _mode,
    "dropout": _dropout,
    "dtype": _dtypes,
    "device": _devices,
    "attention kernel": _kernel,
}
_NOTES = {
    "dropout": "what is dropped differs between two runs",
    "dtype": "differences up to the coarser type's rounding are expected",
    "attention kernel": "kernels agree within rounding",
}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def _autocast() -> str:
    kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    named = (f"{kind} {torch.get_autocast_dtype(kind)}".replace("torch.", "") for kind in kinds)
    return ", ".join(named) or "off"


def _config_of(side: object) -> Any:
    if not isinstance(side, nn.Module):
        return None
    return next((value for name in CONFIGS if (value := vars(side).get(name)) is not None), None)


# settings and weights


def _compare_settings(candidate: nn.Module, reference: nn.Module) -> list[Condition]:
    """Compare the values that both sides' configs (or modules) name."""
    ours, theirs = settings_of(candidate), settings_of(reference)
    found = []
    for name in ours:
        if name in theirs:
            left, right = (_some([_said(v) for v in side[name].values]) for side in (ours, theirs))
            equal = set(ours[name].values) == set(theirs[name].values)
            note = "" if equal else f"{ours[name].place} against {theirs[name].place}"
            found.append(Condition(name, left, right, equal, note))
    return found


def _said(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _compare_weights(weights: WeightMap) -> Condition:
    """Compare the checksums of every pair, name the first that differ and what has no pair."""
    sums = {name: pair for name, pair in weights.checksums().items() if pair[1]}
    differing = [name for name, (ours, theirs) in sums.items() if ours != theirs]
    copied = [pair.candidate for pair in weights.copied]
    alone = [left.name for left in weights.unpaired]
    left = [name for name in differing if name not in copied]
    are = "are" if differing else "of them"
    told = [f"{len(copied)} {are} copied for the comparison"] if copied else []
    told += [f"{_some(left)} differ"] if left else []
    told += [f"no counterpart of {_some(alone)}"] if alone else []
    note = "; ".join(told)
    if not differing:
        ours, theirs = (
            f"{len(sums)} tensors" + f" and {count} unpaired" * bool(count)
            for side in ("candidate", "reference")
            for count in [sum(one.side == side for one in weights.unpaired)]
        )
        return Condition("weights", ours, theirs, equal=not alone, note=note)
    first = differing[0]
    return Condition(
        "weights",
        f"{len(sums) - len(differing)} of {len(sums)} tensors equal, {first} {sums[first][0][:12]}",
        f"{' + '.join(weights[first].references)} {sums[first][1][:12]}",
        equal=False,
        note=note,
    )
