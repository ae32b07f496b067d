"""Re-initialises a model by a scheme, and shows what was drawn and what was left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.nn.init.finding import matrix_of
from attnscope.nn.init.roles import RESIDUAL, Place, Role, role_of
from attnscope.nn.init.schemes import Scheme

__all__ = ["Drawn", "apply"]

_HEAD_DIM = ("head_dim", "key_value_proj_dim", "d_kv", "dim_head", "head_size")
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead")
_WIDTH = ("embed_dim", "hidden_size", "all_head_size", "d_model", "width", "dim")
_SIDES: tuple[Role, ...] = ("q", "k", "v")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One parameter after `apply`.

    std: the one it was drawn with, 0.0 for zeros; None: it was left as it was, `note` says why.
    """

    name: str
    role: Role
    std: float | None
    note: str = ""


def apply(
    module: nn.Module,
    scheme: Scheme,
    *,
    generator: torch.Generator | None = None,
    head_dim: int | None = None,
) -> tuple[Drawn, ...]:
    """Re-initialise the matrices, tables and biases of `module` in place; return what was done.

    Matrices of linear layers, convolutions and `MultiheadAttention` and embedding tables are drawn
    by the scheme with the role that their name tells; biases beside them by the scheme too (zero in
    all but `TorchDefault`). Norms, and parameters whose layout is not known, are left and listed.
    A tied parameter is drawn once, an embedding's padding row stays zero.

    Args:
        module: any module.
        scheme: how to draw.
        generator: of the random numbers; None: the global one.
        head_dim: width of one head, for T5; None: as the modules say.

    Raises:
        InputError: the scheme needs something that is not known; nothing was changed then.

    Source: each scheme's own. Elsewhere: `model.apply(init_weights)`, `_init_weights`.

    Example:
        >>> from attnscope.nn import init
        >>> layer = nn.TransformerEncoderLayer(64, 4)
        >>> done = init.apply(layer, init.Normal(0.02))
        >>> [(one.name, one.role, one.std) for one in done if one.role == "o"]
        [('self_attn.out_proj.weight', 'o', 0.02), ('self_attn.out_proj.bias', 'o', 0.0)]
    """
    parameters = dict(module.named_parameters())
    residuals = sum(one.dim() > 1 and role_of(name) in RESIDUAL for name, one in parameters.items())
    plans = [
        _plan(module, name, one, _Sizes(residuals, head_dim)) for name, one in parameters.items()
    ]
    for plan in plans:  # ask for everything first, so that an error leaves the module as it was
        for _, place in plan.pieces if plan.bias is None else ():
            scheme.std(place)
    return tuple(plan.run(scheme, generator) for plan in plans)


@dataclass(frozen=True, slots=True)
class _Sizes:
    residuals: int
    head_dim: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How one parameter is drawn: in pieces, each with its place; or not, and why."""

    name: str
    role: Role
    pieces: tuple[tuple[Tensor, Place], ...] = ()
    bias: Tensor | None = None
    padding: Tensor | None = None
    note: str = ""

    @torch.no_grad()
    def run(self, scheme: Scheme, generator: torch.Generator | None) -> Drawn:
        if not self.pieces:
            return Drawn(self.name, self.role, None, self.note)
        if self.bias is not None:
            bound = scheme.bias_bound(self.pieces[0][1])
            self.bias.uniform_(-bound, bound, generator=generator) if bound else self.bias.zero_()
            return Drawn(self.name, self.role, bound / 3**0.5)
        for piece, place in self.pieces:
            scheme.draw_(piece, place, generator)
        if self.padding is not None:
            self.padding.zero_()
        return Drawn(self.name, self.role, scheme.std(self.pieces[0][1]))


def _plan(root: nn.Module, name: str, parameter: nn.Parameter, sizes: _Sizes) -> _Plan:
    path, _, own = name.rpartition(".")
    owner = root.get_submodule(path)
    role = _role(name, owner)
    weight = _weight_of(owner, own, role)
    if weight is None:
        note = _unknown_layout(owner) if parameter.dim() > 1 else "no matrix"
        return _Plan(name, role, note=note)
    matrix = matrix_of(owner, weight, role, _number(owner, _HEADS) or len(weight))
    if matrix is None:
        return _Plan(name, role, note=_unknown_layout(owner))
    head_dim = sizes.head_dim or _head_dim(root, path)
    place = Place(role, matrix.shape[1], len(matrix), len(matrix), sizes.residuals, head_dim)
    if own.endswith("bias"):
        return _Plan(name, role, ((weight, place),), bias=parameter.detach())
    if own == "in_proj_weight":
        return _Plan(name, role, tuple(_packed(owner, matrix, place)))
    padding = owner.padding_idx if isinstance(owner, nn.Embedding) else None
    zero = weight[padding] if padding is not None else None
    return _Plan(name, role, ((weight, place),), padding=zero)


def _unknown_layout(owner: nn.Module) -> str:
    return f"the layout of {type(owner).__name__} is not known"


def _role(name: str, owner: nn.Module) -> Role:
    role = role_of(name)
    if isinstance(owner, nn.Embedding) and role != "positions":
        return "embedding"
    return role


def _weight_of(owner: nn.Module, own: str, role: Role) -> Tensor | None:
    """Return the matrix that a parameter is, or whose bias it is; None: of unknown layout."""
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding)
    known = isinstance(owner, kinds) or type(owner).__name__ == "Conv1D"
    packed = {"in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight"}
    name = own
    if own == "bias" and isinstance(getattr(owner, "weight", None), Tensor):
        name = "weight"
    elif own == "in_proj_bias":
        name = (
            "q_proj_weight" if getattr(owner, "in_proj_weight", None) is None else "in_proj_weight"
        )
    weight = getattr(owner, name)
    by_head = weight.dim() == 3 and role in {"q", "k", "v", "o"}
    if not (known or own in packed or by_head):
        return None
    tensor: Tensor = weight.detach()
    return tensor


def _packed(owner: nn.Module, matrix: Tensor, place: Place) -> Iterator[tuple[Tensor, Place]]:
    """Yield the rows of q, k and v in an `in_proj_weight`."""
    rows = len(matrix)
    heads, head_dim = _number(owner, ("num_heads",)), _number(owner, ("head_dim",))
    queries = heads * head_dim or rows // 3
    keys = (rows - queries) // 2
    for side, part in zip(_SIDES, matrix.split([queries, keys, keys]), strict=True):
        yield part, replace(place, role=side, fan_out=len(part))


def _head_dim(root: nn.Module, path: str) -> int:
    """Return the width of a head as the nearest module around says, or its config; else 0."""
    while True:
        owner: Any = root.get_submodule(path)
        for source in (owner, getattr(owner, "config", None)):
            found = _number(source, _HEAD_DIM)
            heads, width = _number(source, _HEADS), _number(source, _WIDTH)
            if found or (heads and width):
                return found or width // heads
        if not path:
            return 0
        path = path.rpartition(".")[0]


def _number(source: Any, names: tuple[str, ...]) -> int:
    values = (getattr(source, name, None) for name in names)
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0), 0)
