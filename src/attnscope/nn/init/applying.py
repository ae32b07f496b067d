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
from attnscope.nn.init.schemes.base import scheme_given
from attnscope.reference.given import count, instance

__all__ = ["Drawn", "apply"]

_HEAD_DIM = ("head_dim", "key_value_proj_dim", "d_kv", "dim_head", "head_size")
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead")
_WIDTH = ("embed_dim", "hidden_size", "all_head_size", "d_model", "width", "dim")
_DOING = "drawing initial values"
_SIDES: tuple[Role, ...] = ("q", "k", "v")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One parameter after `apply`, or one part of it where q, k and v are packed in one.

    std: the one it was drawn with, 0.0 for zeros; None: it was left as it was, `note` says why.
    rows: first row of the part and the one after its last; None: the whole parameter.
    """

    name: str
    role: Role
    std: float | None
    note: str = ""
    rows: tuple[int, int] | None = None


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
    A tied parameter is drawn once, an embedding's padding row stays zero. The parts of a packed
    ``in_proj_weight`` or ``in_proj_bias`` are drawn, and listed, one by one.

    Args:
        module: any module.
        scheme: how to draw.
        generator: of the random numbers; None: the global one.
        head_dim: width of one head, for T5; None: as the modules say.

    Raises:
        InputError: an argument of another type, or the scheme needs something that is not known;
            nothing was changed then.

    Source: each scheme's own. Elsewhere: `model.apply(init_weights)`, `_init_weights`.

    Example:
        >>> from attnscope.nn import init
        >>> layer = nn.TransformerEncoderLayer(64, 4)
        >>> done = init.apply(layer, init.Normal(0.02))
        >>> [(one.name, one.role, one.std) for one in done if one.role == "o"]
        [('self_attn.out_proj.weight', 'o', 0.02), ('self_attn.out_proj.bias', 'o', 0.0)]
    """
    _check(module, scheme, generator, head_dim)
    parameters = dict(module.named_parameters())
    residuals = sum(one.dim() > 1 and role_of(name) in RESIDUAL for name, one in parameters.items())
    plans = [
        _plan(module, name, one, _Sizes(residuals, head_dim)) for name, one in parameters.items()
    ]
    for plan in plans:  # ask for everything first, so that an error leaves the module as it was
        for piece in plan.pieces:
            (scheme.bias_bound if plan.is_bias else scheme.std)(piece.place)
    return tuple(done for plan in plans for done in plan.run(scheme, generator))


def _check(module: object, scheme: object, generator: object, head_dim: object) -> None:
    instance(_DOING, "the module", module, nn.Module)
    scheme_given(_DOING, scheme)
    if generator is not None:
        instance(_DOING, "the generator", generator, torch.Generator)
    if head_dim is not None:
        count(_DOING, "head_dim", head_dim)


@dataclass(frozen=True, slots=True)
class _Sizes:
    residuals: int
    head_dim: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """What is drawn at once: a parameter, or some rows of it."""

    tensor: Tensor
    place: Place
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How one parameter is drawn: in pieces, each with its place; or not, and why."""

    name: str
    role: Role
    pieces: tuple[_Piece, ...] = ()
    is_bias: bool = False
    padding: Tensor | None = None
    note: str = ""

    @torch.no_grad()
    def run(self, scheme: Scheme, generator: torch.Generator | None) -> list[Drawn]:
        if not self.pieces:
            return [Drawn(self.name, self.role, None, self.note)]
        done = []
        for piece in self.pieces:
            if self.is_bias:
                bound = scheme.bias_bound(piece.place)
                piece.tensor.uniform_(-bound, bound, generator=generator)
                std = bound / 3**0.5
            else:
                scheme.draw_(piece.tensor, piece.place, generator)
                std = scheme.std(piece.place)
            role = self.role if piece.rows is None else piece.place.role
            done.append(Drawn(self.name, role, std, rows=piece.rows))
        if self.padding is not None:
            self.padding.zero_()
        return done


def _plan(root: nn.Module, name: str, parameter: nn.Parameter, sizes: _Sizes) -> _Plan:
    path, _, own = name.rpartition(".")
    owner = root.get_submodule(path)
    role = _role(name, owner)
    weight = _weight_of(owner, own, role)
    if weight is None:
        note = _unknown_layout(owner) if parameter.dim() > 1 else "no matrix"
        return _Plan(name, role, note=note)
    if not weight.numel():
        return _Plan(name, role, note="no entries")
    matrix = matrix_of(owner, weight, role, _number(owner, _HEADS) or len(weight))
    if matrix is None:
        return _Plan(name, role, note=_unknown_layout(owner))
    head_dim = sizes.head_dim or _head_dim(root, path)
    place = Place(role, matrix.shape[1], len(matrix), len(matrix), sizes.residuals, head_dim)
    is_bias = own.endswith("bias")
    drawn = parameter.detach() if is_bias else weight
    pieces: tuple[_Piece, ...] = (_Piece(drawn, place),)
    if own.startswith("in_proj_"):
        pieces = tuple(_packed(owner, drawn, place))
    padding = owner.padding_idx if isinstance(owner, nn.Embedding) else None
    zero = weight[padding] if padding is not None else None
    return _Plan(name, role, pieces, is_bias, padding=zero)


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


def _packed(owner: nn.Module, drawn: Tensor, place: Place) -> Iterator[_Piece]:
    """Yield the rows of q, k and v in an ``in_proj_weight`` or ``in_proj_bias``."""
    heads, head_dim = _number(owner, ("num_heads",)), _number(owner, ("head_dim",))
    whole = place.fan_out
    queries = whole if place.role == "q" else heads * head_dim or whole // 3
    keys = (whole - queries) // 2
    first = 0
    for side, rows in zip(_SIDES, (queries, keys, keys), strict=True):
        if rows:
            part = drawn[first : first + rows]
            yield _Piece(part, replace(place, role=side, fan_out=rows), (first, first + rows))
        first += rows


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
