"""The arguments of an attention, checked once and brought to one form, for forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, TypedDict, Unpack

import numpy as np

from attnscope.errors import InputError
from attnscope.reference.arrays import fits
from attnscope.reference.axes import AnyFloat, Bias, Key, Query, Scores, Sinks, Value, Visible
from attnscope.reference.given import choice, number, positive, real
from attnscope.reference.heads import KvMap, expand_kv
from attnscope.reference.masks.alignment import Alignment
from attnscope.reference.masks.by_place import causal
from attnscope.reference.masks.conventions import from_keep
from attnscope.reference.normalisers.named import Normaliser, normaliser_of
from attnscope.reference.rows import EmptyRow

__all__ = ["DOING", "Edit", "ForwardOptions", "Options", "Parts", "backward_options"]

DOING = "computing attention"
AXES = "(batch, heads, queries, keys)"


class Options(TypedDict, total=False):
    """The parts of `attention` that its backward takes, too, by name."""

    scale: float | AnyFloat | None
    mask: Visible | None
    causal: Alignment | bool | None
    bias: Bias | None
    softcap: float | None
    sinks: Sinks | None
    normaliser: str | Normaliser
    keep: Visible | None
    dropout: float | None
    empty_row: EmptyRow
    kv_map: KvMap


Edit: TypeAlias = Callable[[AnyFloat], AnyFloat]
"""A change of one step: gets a copy of the array, returns what to go on with, of the same shape."""


class ForwardOptions(Options, total=False):
    """All parts of `attention` by name, with the edits, which have no known derivative."""

    edit_raw_scores: Edit | None
    edit_scores: Edit | None
    edit_weights: Edit | None


def backward_options(function: str, options: Options) -> None:
    """Check the names of the options that a backward was given: those of `attention`, no edits.

    Raises:
        TypeError: `attention` has no such argument; as it raises itself.
        InputError: an edit, which has no known derivative.
    """
    unknown = [name for name in options if name not in Options.__annotations__]
    for name in unknown:
        if name not in ForwardOptions.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    edits = [name for name in unknown if dict(options)[name] is not None]
    if edits:
        raise InputError(
            "computing the gradients of attention",
            f"{edits[0]}, an edit whose derivative is not known",
            "leave it out; gradients of an edited attention are those of finite differences",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """One attention's arguments as float64, its kv heads expanded and its masks joined.

    shapes: of q, k, v, scale, bias and sinks as they were given, to which gradients are summed.
    kept: what dropout multiplies each weight by: 1/(1 - p) where it is kept, 0 where not.
    """

    q: Query
    k: Key
    v: Value
    scale: AnyFloat
    visible: Visible | None
    bias: Bias | None
    softcap: float | None
    sinks: Sinks | None
    normaliser: Normaliser
    kept: AnyFloat | None
    empty_row: EmptyRow
    kv_map: KvMap
    shapes: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, q: Query, k: Key, v: Value, **options: Unpack[Options]) -> Self:
        """Check and convert the arguments of `attention`.

        Raises:
            InputError: one of them doesn't fit the others.
        """
        q, k, v = (real(DOING, name, x) for name, x in (("q", q), ("k", k), ("v", v)))
        shapes = {"q": q.shape, "k": k.shape, "v": v.shape}
        kv_map = options.get("kv_map", "repeated")
        k, v = _met_by(q, k, v, kv_map)
        wide = (*_lead(q, k, v), q.shape[-2], k.shape[-2])
        scale = options.get("scale")
        scale = real(DOING, "scale", _default_scale(q) if scale is None else scale)
        bias, sinks = (_optional(name, options.get(name)) for name in ("bias", "sinks"))
        empty_row = options.get("empty_row", "nan")
        choice(DOING, "empty_row", empty_row, ("nan", "zero", "uniform"))
        fits("scale", scale.shape, wide, AXES, DOING)
        shapes["scale"] = scale.shape
        if bias is not None:
            fits("bias", bias.shape, wide, AXES, DOING)
            shapes["bias"] = bias.shape
        if sinks is not None:
            shapes["sinks"] = sinks.shape
            sinks = _columns(sinks, wide[:-1])
        return cls(
            q=q,
            k=k,
            v=v,
            scale=scale,
            visible=_visible(options.get("mask"), options.get("causal"), wide),
            bias=bias,
            softcap=_checked_cap(options.get("softcap")),
            sinks=sinks,
            normaliser=normaliser_of(options.get("normaliser", "softmax")),
            kept=_kept(options.get("keep"), options.get("dropout"), wide),
            empty_row=empty_row,
            kv_map=kv_map,
            shapes=shapes,
        )

    def raw_scores(self) -> Scores:
        """Return q · kᵀ."""
        return np.asarray(self.q @ self.k.swapaxes(-1, -2))

    def scores(self, raw: Scores) -> Scores:
        """Return what enters the normaliser: scaled, capped, biased, -inf where hidden."""
        scores = np.asarray(raw * self.scale)
        if self.softcap is not None:
            scores = self.softcap * np.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + self.bias
        return scores if self.visible is None else np.where(self.visible, scores, -np.inf)

    def scores_backward(self, raw: Scores, gradient: Scores) -> tuple[Scores, Scores]:
        """Return the gradients of the scores before mask and bias, and before scale and cap.

        The first is 0 where the mask hides; the second is it times 1 - tanh²(scale · raw / cap).
        """
        shown = gradient if self.visible is None else np.where(self.visible, gradient, 0.0)
        if self.softcap is None:
            return shown, shown
        slope = 1.0 - np.square(np.tanh(raw * self.scale / self.softcap))
        return shown, np.asarray(shown * slope)


def _met_by(q: Query, k: Key, v: Value, kv_map: KvMap) -> tuple[Key, Value]:
    """Return k and v with the heads of q, after a look at all axes but the batch."""
    shapes = f"q {q.shape}, k {k.shape}, v {v.shape}"
    if not q.ndim == k.ndim == v.ndim or q.ndim < 2:
        raise InputError(
            DOING, shapes, "give all three as (batch, heads, length, width), or without the first"
        )
    if q.shape[-1] != k.shape[-1]:
        raise InputError(DOING, f"{shapes}: widths of q and k differ", "give both one head_dim")
    if k.shape[-2] != v.shape[-2]:
        raise InputError(
            DOING, f"{shapes}: k and v differ in length", "give one value for each key"
        )
    if q.ndim == 2:
        return k, v
    heads = q.shape[-3]
    return expand_kv(k, heads, kv_map), expand_kv(v, heads, kv_map)


def _lead(q: Query, k: Key, v: Value) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError as error:
        raise InputError(
            DOING,
            f"q {q.shape}, k {k.shape}, v {v.shape} (kv heads expanded): batches differ",
            "give the same number of samples, or 1",
        ) from error


def _default_scale(q: Query) -> float:
    return float(max(q.shape[-1], 1) ** -0.5)


def _optional(name: str, given: object) -> AnyFloat | None:
    return None if given is None else real(DOING, name, given)


def _columns(sinks: AnyFloat, rows: tuple[int, ...]) -> Sinks:
    """Return sinks with an axis of their own; a flat list could be heads or columns."""
    if sinks.ndim == 1 and sinks.size != 1:
        raise InputError(
            DOING,
            f"sinks of shape {sinks.shape}, which could be one a head or several a row",
            "give sinks[:, None, None] for one a head, sinks[None, None, :] for several a row",
        )
    sinks = np.atleast_1d(sinks)
    fits("sinks", sinks.shape[:-1], rows, "(batch, heads, queries) before their own axis", DOING)
    return sinks


def _visible(
    mask: object, corner: Alignment | Literal[True, False] | None, wide: tuple[int, ...]
) -> Visible | None:
    """Return mask and causal mask joined, None where nothing was given."""
    given = None if mask is None else from_keep(mask)
    if given is not None:
        fits("mask", given.shape, wide, AXES, DOING)
    if corner is None or corner is False:
        return given
    edge = causal(wide[-2], wide[-1], None if corner is True else corner)
    return edge if given is None else np.asarray(edge & given)


def _checked_cap(softcap: float | None) -> float | None:
    if softcap is not None:
        positive(DOING, "give a cap above 0, or None for no cap", softcap=softcap)
    return softcap


def _kept(keep: object, dropout: float | None, wide: tuple[int, ...]) -> AnyFloat | None:
    """Return the factor of each weight that dropout leaves, None without dropout."""
    if dropout is not None and not 0 <= number(DOING, "dropout", dropout) <= 1:
        raise InputError(DOING, f"dropout={dropout}", "give a probability from 0 to 1")
    if keep is None:
        if dropout:
            raise InputError(
                DOING,
                f"dropout={dropout} and no keep",
                "give the weights to keep (True = kept): the reference draws no random numbers",
            )
        return None
    if dropout is None:
        raise InputError(
            DOING,
            "keep without dropout",
            "give the probability that keep was drawn with as dropout",
        )
    kept = from_keep(keep, "reading which weights dropout keeps")
    fits("keep", kept.shape, wide, AXES, DOING)
    return kept * (0.0 if dropout == 1 else 1.0 / (1.0 - dropout))
