"""From the name of an operation to the rule that follows axes through it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attnscope.capture.layout import contraction, elementwise, indexing, pieces, shapes
from attnscope.capture.layout.algebra import Layout, settle
from attnscope.capture.layout.operation import Operation, UnfollowedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Rule = Callable[[Operation], Layout]


def _table() -> Mapping[str, Rule]:
    groups: list[tuple[str | frozenset[str], Rule]] = [
        (
            "view view_as reshape reshape_as flatten ravel unflatten squeeze unsqueeze unsafe_view",
            shapes.view,
        ),
        ("atleast_1d atleast_2d atleast_3d", shapes.view),
        ("permute permute_dims", shapes.permute),
        ("transpose swapaxes swapdims", shapes.transpose),
        ("T H t", shapes.reverse_axes),
        ("mT mH adjoint matrix_transpose", shapes.swap_last),
        ("movedim moveaxis", shapes.move_axes),
        ("expand expand_as broadcast_to", shapes.expand),
        ("repeat tile", shapes.repeat),
        ("repeat_interleave", shapes.repeat_interleave),
        ("unfold", shapes.windows),
        ("view_as_complex", shapes.as_complex),
        ("view_as_real", shapes.as_real),
        ("narrow", pieces.narrow),
        ("select", pieces.select),
        ("unbind", pieces.unbind),
        (
            "chunk unsafe_chunk split unsafe_split split_with_sizes tensor_split",
            pieces.part,
        ),
        ("cat concat concatenate", pieces.cat),
        ("stack", pieces.stack),
        ("pad constant_pad_nd", pieces.pad),
        ("flip fliplr flipud", pieces.flip_axes),
        ("roll", pieces.roll),
        ("getitem", indexing.getitem),
        ("index_select", indexing.index_select),
        ("embedding", indexing.embedding),
        ("gather take_along_dim", indexing.gather),
        (elementwise.POINTWISE, elementwise.pointwise),
        (elementwise.UNCHANGED, elementwise.unchanged),
        (elementwise.SHAKEN, elementwise.shaken),
        (elementwise.TRIANGULAR, elementwise.triangular),
        (elementwise.RUNNING, elementwise.running),
        (elementwise.SORTING, elementwise.sorting),
        (elementwise.REDUCTIONS, elementwise.reduction),
        ("copy", elementwise.copied),
        (contraction.CONTRACTIONS, contraction.contracted),
    ]
    return MappingProxyType(
        {
            name: rule
            for names, rule in groups
            for name in (names.split() if isinstance(names, str) else names)
        }
    )


RULES = _table()
"""The rule for each operation that axes can be followed through."""


def bare_name(name: str) -> str:
    """The name shared by all forms of an operation: ``__getitem__``, ``add_``, ``add``."""
    return name.strip("_")


def follow(
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    out_shape: tuple[int, ...],
    *,
    new_origin: Callable[[], int],
    output_index: int = 0,
) -> Layout | None:
    """The layout of an operation's output, or None where it can't be told.

    In ``args`` and ``kwargs`` every tensor is replaced by its ``Layout`` or by ``Unknown``, inside
    lists and tuples too. ``name`` is the bare name that methods and functions share (``view``,
    ``matmul``, ``getitem``); a trailing ``_`` is allowed, and reflected forms (``radd``) take their
    operands as Python hands them over. ``output_index`` says which of several outputs is meant.

    ``new_origin`` hands out the number of an origin that begins here: the features of a
    projection, and opaque axes.

    >>> from itertools import count
    >>> from attnscope.capture.layout import follow, fresh
    >>> x = fresh((2, 5, 12), origin=0)
    >>> heads = follow("view", (x, 2, 5, 3, 4), {}, (2, 5, 3, 4), new_origin=count(1).__next__)
    >>> [(atom.axis, atom.stride, atom.size) for atom in heads.axes[2]]
    [(2, 4, 3)]
    """
    rule = RULES.get(bare_name(name))
    if rule is None or 0 in out_shape:
        return None
    op = Operation(bare_name(name), args, kwargs, tuple(out_shape), output_index, new_origin)
    try:
        layout = settle(rule(op).axes)
    except UnfollowedError:
        return None
    return layout if layout.shape == op.out_shape else None
