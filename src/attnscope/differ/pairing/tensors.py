"""The tensors of a model that pair: parameters, tied ones once, and buffers that hold weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

Kind: TypeAlias = Literal["linear", "conv1d", "norm", "embedding", "conv", "attention", "raw"]

RUNNING = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True, eq=False, slots=True)
class Weight:
    """One tensor of a model.

    names: every path that leads to it, the first registered first; several = tied.
    kind: of the layer that owns it, which says what its axes are. order: of registration.
    computed: whether a parametrization makes it of other tensors.
    """

    names: tuple[str, ...]
    tensor: Tensor
    owners: tuple[nn.Module, ...]
    order: int
    buffer: bool
    computed: bool = False

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.tensor.shape)

    @property
    def kind(self) -> Kind:
        """What kind of layer owns it."""
        return kind_of(self.owners[0])

    @property
    def constant(self) -> float | None:
        """The one value of all its elements, or None where they differ: no proof by value."""
        values = self.tensor.detach().reshape(-1)
        if not len(values):
            return 0.0
        if not bool((values[:2] == values[0]).all()) or not bool((values == values[0]).all()):
            return None
        return float(values[0])

    @property
    def neutral(self) -> bool:
        """Whether it changes nothing: a bias of zeros, a norm's gain of ones."""
        leaf = self.name.rpartition(".")[2]
        if self.constant == 0.0:
            return is_bias(leaf, self.shape)
        return self.constant == 1.0 and self.kind == "norm" and not is_bias(leaf, self.shape)


def weights_of(model: nn.Module, *, computed: bool = False) -> tuple[Weight, ...]:
    """Return the tensors of a model that pair, in order of registration.

    Buffers are those that are saved with it and hold numbers that training made (running
    statistics) or tables; whether a table takes part is decided by its values alone.

    Args:
        model: the model.
        computed: take a parametrized tensor as its layer uses it, not what it is made of.
    """
    found: dict[object, Weight] = {}
    for entry in _tensors(model, computed=computed):
        key = _identity(entry.tensor)
        if key in found:
            first = found[key]
            names, owners = (*first.names, *entry.names), (*first.owners, *entry.owners)
            found[key] = replace(first, names=names, owners=owners)
        else:
            found[key] = replace(entry, order=len(found))
    return tuple(found.values())


def parametrized(model: nn.Module) -> set[tuple[str, ...]]:
    """Return the tensors that parametrizations make (torch.nn.utils.parametrize), and which."""
    return {
        (path, leaf, *(type(part).__name__ for part in made_of(owner, leaf)))
        for path, leaf, owner in _computed(model)
    }


def made_of(owner: nn.Module, leaf: str) -> Any:
    """Return the parametrizations of one tensor, which hold what it is made of."""
    parametrizations: Any = owner.parametrizations
    return parametrizations[leaf]


def _leaves(owner: nn.Module) -> list[str]:
    parametrizations: Any = owner.parametrizations
    return list(parametrizations)


def _computed(model: nn.Module) -> list[tuple[str, str, nn.Module]]:
    return [
        (path, leaf, module)
        for path, module in model.named_modules()
        if is_parametrized(module)
        for leaf in _leaves(module)
    ]


def value_of(owner: nn.Module, leaf: str) -> Tensor:
    """Return a parametrized tensor; looking changes nothing (a spectral norm would iterate)."""
    made = made_of(owner, leaf)
    modes = {module: module.training for module in made.modules()}
    try:
        for module in modes:
            module.training = False
        with torch.no_grad():
            value: Tensor = made().detach().clone()
    finally:
        for module, mode in modes.items():
            module.training = mode
    return value


def _tensors(model: nn.Module, *, computed: bool) -> Iterator[Weight]:
    """Go through the tensors of a model, tied ones each time they are named."""
    made = _computed(model) if computed else []
    inside = tuple(f"{path}.parametrizations.".removeprefix(".") for path, _, _ in made)
    for path, module in model.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        if inside and prefix.startswith(inside):
            continue
        for leaf in [leaf for _, leaf, owner in made if owner is module]:
            value = value_of(module, leaf)
            yield Weight((prefix + leaf,), value, (module,), 0, buffer=False, computed=True)
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            yield Weight((prefix + name,), parameter, (module,), 0, buffer=False)
        for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
            if name in module._non_persistent_buffers_set:  # noqa: SLF001  torch has no other way
                continue
            if buffer.is_floating_point() and (name in RUNNING or _is_table(buffer)):
                yield Weight((prefix + name,), buffer, (module,), 0, buffer=True)


def _is_table(buffer: Tensor) -> bool:
    """Whether a buffer holds other numbers than those of a mask (0, 1, -inf, the lowest float)."""
    values = buffer.detach().reshape(-1)
    mask = (values == 0) | (values == 1) | (values <= torch.finfo(buffer.dtype).min)
    return not bool(mask.all())


def _identity(tensor: Tensor) -> object:
    """Return what two names of one tensor share, also where one is a view of all of the other."""
    if tensor.device.type == "meta" or not tensor.numel():
        return id(tensor)
    return (
        str(tensor.device),
        tensor.data_ptr(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
    )


def kind_of(module: nn.Module) -> Kind:
    """Return what kind of layer a module is, by its class, so that its axes are known."""
    name = type(module).__name__
    if isinstance(module, nn.MultiheadAttention):
        return "attention"
    if isinstance(module, nn.Linear):
        return "linear"
    if isinstance(module, nn.Embedding):
        return "embedding"
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return "conv"
    if name == "Conv1D":  # of Hugging Face: (inputs, outputs)
        return "conv1d"
    if "norm" in name.lower() or name.lower() in {"ln", "rms"}:
        return "norm"
    weight = module._parameters.get("weight")  # noqa: SLF001  without running a property
    if "linear" in name.lower() and weight is not None and weight.ndim == 2:
        return "linear"
    return "raw"


def is_bias(leaf: str, shape: tuple[int, ...]) -> bool:
    """Whether the last part of a parameter's name speaks of a bias."""
    word = leaf.lower()
    if word in {"beta", "shift"} or "bias" in word.split("_") or word.endswith("bias"):
        return True
    return len(shape) <= 2 and (
        word.startswith("b_") or word in {"b", "bq", "bk", "bv", "bo", "bqkv"}
    )
