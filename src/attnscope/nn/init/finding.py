"""Finds the projections of an attention call in a model that was written by anybody.

First by what capture saw: the trail of q, k and v names the parameters and the rows. Where a
parameter was used through a view (``weight.T``, a chunk of a packed weight) or inside a fused
kernel, by name among the parameters next to the call. The output projection is the module that
received the context, proven by its values, else found by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.calls.tolerance import replay
from attnscope.errors import ReplayError
from attnscope.nn.init.features import Made, made_by, trail_of
from attnscope.nn.init.roles import Role, role_of
from attnscope.nn.init.watching import Run, Runs

__all__ = ["FoundBy", "Part", "Side", "find_parts", "matrix_of"]

Side: TypeAlias = Literal["q", "k", "v", "o"]
FoundBy: TypeAlias = Literal["trail", "value", "name"]

_LINEAR = frozenset({"linear", "conv1d", "conv2d", "conv3d"})
_HOLDS: dict[Role, tuple[Side, ...]] = {"qkv": ("q", "k", "v"), "kv": ("k", "v")}
_ANCESTORS = 2
"""Modules above a call's own in which a projection is looked for by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One projection of one call.

    side: q, k, v or o; name: path of the parameter; weight: its rows (features, fan_in);
    drawn_rows: rows of the whole parameter; found_by: "trail" (recorded), "value" (it received the
    context), "name"; exact: whether `weight` holds the rows of this side and no others.
    """

    side: Side
    name: str
    weight: Tensor
    drawn_rows: int
    found_by: FoundBy
    exact: bool = True

    @property
    def module(self) -> str:
        """Path of the module that owns the parameter."""
        return self.name.rpartition(".")[0]


def find_parts(model: nn.Module, call: Call, runs: Runs) -> list[Part]:
    """Return the projections of a call that could be found, in the order q, k, v, o."""
    parameters = dict(model.named_parameters())
    parts: list[Part] = []
    sides: tuple[Side, ...] = ("q", "k", "v")
    for side in sides:
        recorded = _recorded(call, side, parameters)
        parts += recorded or _by_name(model, call, side)
    received = _receiver(model, call, runs)
    return parts + ([received] if received is not None else _by_name(model, call, "o"))


def matrix_of(
    owner: nn.Module | None, parameter: Tensor, role: Role = "hidden", heads: int = 0
) -> Tensor | None:
    """Return a weight as (features, fan_in), whatever its owner keeps it as; None: not known how.

    A module called Conv1D (GPT-2's) keeps (fan_in, features), everything else the reverse. A weight
    with an axis of `heads` has it first, (heads, width, head_dim) for q, k and v and (heads,
    head_dim, width) for the output, or second, (width, heads, head_dim) for all.
    """
    weight = parameter.detach()
    if type(owner).__name__ == "Conv1D":
        return weight.T
    if weight.dim() != 3 or isinstance(owner, nn.Conv1d):
        return weight.flatten(1)
    if len(weight) == heads:
        return weight.flatten(0, 1).T if role == "o" else weight.mT.flatten(0, 1)
    if weight.shape[1] == heads:
        return weight.flatten(1) if role == "o" else weight.flatten(1).T
    return None


# -- by what was recorded --------------------------------------------------------------------------


def _recorded(call: Call, side: Side, parameters: dict[str, nn.Parameter]) -> list[Part]:
    parts = []
    for made in made_by(trail_of(call, side)):
        names = [name for name in made.parameters if name in parameters]
        name = next((name for name in names if parameters[name].dim() > 1), None)
        matrix = _by_features(made, parameters[name]) if name is not None else None
        if name is None or matrix is None:
            return []
        rows = matrix[made.rows.to(matrix.device)]
        wanted = _features(call, side)
        exact = made.exact and (len(rows) <= wanted)
        parts.append(Part(side, name, rows, len(matrix), "trail", exact))
    return parts


def _by_features(made: Made, parameter: Tensor) -> Tensor | None:
    """Return a parameter as (features, fan_in) by how the recorded step used it."""
    weight, features = parameter.detach(), made.features
    if made.step.name in _LINEAR:
        return weight.flatten(1) if len(weight) == features else None
    if weight.dim() == 2 and weight.shape[1] == features:  # x @ W, addmm, einsum
        return weight.T
    if len(made.rows) == features and weight.numel() % features == 0:
        return weight.reshape(features, -1)  # all of it: the order of its entries does not matter
    return None


def _features(call: Call, side: Side) -> int:
    if side == "q":
        return call.heads * call.head_dim
    width = call.head_dim if side == "k" else call.value_dim
    return (call.heads if side == "o" else call.kv_heads) * width


# -- by value --------------------------------------------------------------------------------------


def _receiver(model: nn.Module, call: Call, runs: Runs) -> Part | None:
    """Return the projection whose input was the context of the call."""
    try:
        context = call.context()  # batch heads queries value_dim
    except ReplayError:
        return None
    for run in runs.following(call.index):
        if not _holds(run, context):
            continue
        owner = model.get_submodule(run.name)
        own = dict(owner.named_parameters(recurse=False))
        name = next(name for name, parameter in own.items() if parameter.dim() > 1)
        matrix = matrix_of(owner, own[name], "o", call.heads)
        if matrix is None:
            continue
        path = f"{run.name}.{name}" if run.name else name
        return Part("o", path, matrix, len(matrix), "value")
    return None


def _holds(run: Run, context: Tensor) -> bool:
    """Return whether what entered a module is the context: heads apart, or joined in any order."""
    entered = run.entered
    batch, heads, queries, width = context.shape
    if entered is None or entered.numel() != context.numel() or not context.numel():
        return False
    joined = context.transpose(1, 2).reshape(batch, queries, heads * width)
    ways = [joined, joined.transpose(0, 1)]  # batch first, sequence first
    if entered.shape == context.shape:
        ways.append(context)
    elif entered.shape[1] == heads * width and entered.shape[-1] != heads * width:
        entered = entered.flatten(2).mT  # channels first, as a convolution takes them
    elif entered.shape[-1] != heads * width:
        return False
    bound = replay(joined.dtype, max(2, queries), width) * float(joined.abs().max())
    return any(
        bool(torch.allclose(entered.to(way).reshape(way.shape), way, rtol=0.0, atol=bound))
        for way in ways
    )


# -- by name ---------------------------------------------------------------------------------------


def _by_name(model: nn.Module, call: Call, side: Side) -> list[Part]:
    """Return the one projection next to a call whose name and size say that it is this side."""
    for scope in _scopes(model, call.module):
        found = [part for part in _named(model, scope, call, side) if part is not None]
        if len(found) == 1:
            return found
        if found:
            return []  # several, and nothing says which
    return []


def _scopes(model: nn.Module, module: str) -> Iterator[str]:
    """Yield the path of a call's module and of those just above it."""
    names = dict(model.named_modules())
    if module not in names:
        yield ""
        return
    for _ in range(_ANCESTORS + 1):
        yield module
        if not module:
            return
        module = module.rpartition(".")[0]


def _named(model: nn.Module, scope: str, call: Call, side: Side) -> Iterator[Part | None]:
    for own, parameter in model.get_submodule(scope).named_parameters():
        name = f"{scope}.{own}" if scope else own
        role = role_of(name, in_attention=scope == call.module and own.count(".") <= 1)
        if parameter.dim() < 2 or not _may_be(role, side):  # biases and norms
            continue
        owner = model.get_submodule(name.rpartition(".")[0])
        matrix = matrix_of(owner, parameter, role, call.heads)
        if matrix is not None:
            yield _cut(matrix, name, role, call, side)


def _may_be(role: Role, side: Side) -> bool:
    return side in _HOLDS.get(role, (role,))


def _cut(matrix: Tensor, name: str, role: Role, call: Call, side: Side) -> Part | None:
    """Return the rows of one side, q before k before v; None where the sizes don't fit the call."""
    rows = len(matrix)
    if side == "o":
        fits = matrix.shape[1] == _features(call, "o")
        return Part(side, name, matrix, rows, "name") if fits else None
    wanted = _features(call, side)
    if role == side:
        return Part(side, name, matrix, rows, "name") if rows == wanted else None
    sides = _HOLDS[role]
    sizes = [_features(call, one) for one in sides]
    if sum(sizes) != rows:
        return None
    return Part(side, name, matrix.split(sizes)[sides.index(side)], rows, "name")
