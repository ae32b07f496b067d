"""Regions that could hold attention and were not seen as such, each with the reason."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from attnscope.calls.trace import Trace, Unseen

_RECURRENT = re.compile(
    r"Mamba|SSM(?![a-z])|StateSpace|Rwkv|RWKV|Retention|RetNet|RetentiveN|Rglru|RGLRU|RgLru|RecurrentBlock"
    r"|Hyena|[msx]LSTM|LinearAttention|LightningAttention|Delta(Net|Rule)|SelectiveSc?|S4D?Layer|S6Layer"
)
"""Class names of layers that mix tokens by a recurrence or a linear kernel."""

_INSIDE = re.compile(
    r"Norm|MLP|Mlp|Embed|Expert|Gate$|Router|Conv|Cache|Model$|For[A-Z]|Activation|Rotary"
)
"""Class names of their parts."""


def scripted(root: nn.Module | None) -> Iterator[Unseen]:
    """Yield the scripted and traced modules of `root`: outermost ones only."""
    inside: str | None = None
    for name, module in root.named_modules() if root is not None else ():
        if inside is not None and (inside == "" or name.startswith(f"{inside}.")):
            continue
        if isinstance(module, torch.jit.ScriptModule):
            inside = name
            yield Unseen(name, "a scripted module: its inside runs without Python")
            continue
        for used in _scripted_functions(module):
            yield Unseen(name, f"a scripted function ({used}): its inside runs without Python")


def _scripted_functions(module: nn.Module) -> Iterator[str]:
    """Yield names of scripted functions that the forward of `module` or its attributes use."""
    own = [value for value in vars(module).values() if callable(value)]
    for value in own:
        if isinstance(value, torch.jit.ScriptFunction):
            yield str(value.name)
    for function in (type(module).forward, *own):
        yield from _scripted_in(inspect.unwrap(function))


def _scripted_in(function: object) -> Iterator[str]:
    code = getattr(function, "__code__", None)
    if code is None:
        return
    names = getattr(function, "__globals__", {})
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    for value in (*(names.get(name) for name in code.co_names), *cells):
        if isinstance(value, torch.jit.ScriptFunction):
            yield str(value.name)


def unrecognised(root: nn.Module | None, trace: Trace) -> Iterator[Unseen]:
    """Yield attention layers, by their names, of a model in which no call was seen at all."""
    if root is None or trace.calls or trace.unseen:
        return
    told: set[type] = set()
    for name, module in root.named_modules():
        kind = type(module)
        if re.search(r"Attention$|Attn$", kind.__name__) and kind not in told:
            if any(_lies_in(other.module, name) for other in trace.others if other.role in _WEIGHS):
                continue
            told.add(kind)
            yield Unseen(
                name,
                f"an attention by its name ({kind.__name__}) that did not run, or that does "
                "something else than weigh values by a function of q·k",
            )


_WEIGHS = frozenset({"additive", "pooling"})
"""Roles of softmaxes that weigh values: an attention without a product of q and k is named so."""


def _lies_in(module: str, layer: str) -> bool:
    return not layer or module == layer or module.startswith(f"{layer}.")


@dataclass(frozen=True, slots=True)
class LinearProduct:
    """A product of a product, with no normaliser between: numbers of its nodes, and its place."""

    sequences: tuple[int, ...]
    module: str
    layer: str


def linear(products: Iterable[LinearProduct], resolved: Collection[int]) -> Iterator[Unseen]:
    """Yield modules in which products of products met no normaliser: linear attention.

    resolved: numbers of the nodes that became part of an attention call.
    """
    told: set[str] = set()
    for product in products:
        if product.module in told or any(number in resolved for number in product.sequences):
            continue
        told.add(product.module)
        yield Unseen(
            product.module,
            f"linear attention or a state space ({product.layer}): products of q, k and v with no "
            "softmax between them",
        )


def recurrent(root: nn.Module | None, trace: Trace) -> Iterator[Unseen]:
    """Yield modules that mix tokens by a recurrence, by their names, where no call was seen."""
    told = {unseen.module for unseen in trace.unseen}
    for name, module in root.named_modules() if root is not None else ():
        kind = type(module).__name__
        inner = any(name == one or name.startswith(f"{one}.") for one in told)
        if (
            inner
            or not _mixes_tokens(module)
            or any(_mixes_tokens(child) for child in module.modules() if child is not module)
        ):
            continue
        if not any(call.module == name or call.module.startswith(f"{name}.") for call in trace):
            told.add(name)
            yield Unseen(name, f"a recurrent or linear token mixer ({kind}), not softmax attention")


def _mixes_tokens(module: nn.Module) -> bool:
    kind = type(module).__name__
    return bool(_RECURRENT.search(kind)) and not _INSIDE.search(kind)
