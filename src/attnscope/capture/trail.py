"""How the axes of a tensor came about: the layout operations since it was made.

A trail is light: names, sizes and plain arguments, no tensor (but single numbers, which may be a
scale). It is written for every tensor while the model runs and read only for those that turn out to
be q, k or v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DEEPEST = 40
"""Longest trail that is kept; a longer one starts anew (a residual stream never ends)."""

LAYOUT = frozenset(
    "view reshape view_as reshape_as flatten unflatten permute transpose movedim t T mT H mH "
    "adjoint squeeze unsqueeze expand expand_as broadcast_to repeat repeat_interleave tile narrow "
    "select getitem index_select chunk split split_with_sizes unbind tensor_split hsplit vsplit "
    "dsplit contiguous clone detach data to type float half bfloat16 double type_as cpu "
    "cuda".split()
)
"""Operations that rearrange what is there, or change only its precision."""


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """A tensor of which nothing is known but its shape."""

    shape: tuple[int, ...]
    boolean: bool = False
    value: Any = None  # the tensor itself where it is a single number or a short table of indices


@dataclass(slots=True, eq=False)
class Trail:
    """One step: an operation, its arguments with `Trail` and `Unfollowed` for tensors.

    An origin has no arguments: what came before it is not known or does not matter.
    parameters: names of the parameters that took part, such as "layers.0.q_proj.weight".
    features: axes that hold newly made features, where this step is a projection; kept: pairs
    (axis of its input, axis of its output) that it left alone.
    """

    name: str
    shape: tuple[int, ...]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None
    output_index: int = 0
    depth: int = 0
    pure: bool = False  # only layout operations since the origin
    parameters: tuple[str, ...] = ()
    features: tuple[int, ...] = ()
    kept: tuple[tuple[int, int], ...] = ()

    @property
    def is_origin(self) -> bool:
        """Whether the trail starts here: nothing before is known, or new features were made."""
        return not self.args or bool(self.features)
