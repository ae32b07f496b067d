"""The bias of the scores: missing, of the other sign or slope, of other heads, scaled, moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isclose

import torch
from torch import Tensor

from attnscope.axes import Bias, Visible
from attnscope.explain.kinds.inside.course import Course
from attnscope.explain.kinds.inside.evaluating import Edit, Inside
from attnscope.explain.kinds.inside.fitting import fitted
from attnscope.explain.kinds.inside.naming import number, numbers, single

__all__ = ["another", "edits"]

_SAME = 1e-5
"""Relative distance of two biases that are one: tables are kept in float32."""

_RATIOS = (2.0, 0.5)
_STARTS = (1 / 16, 1 / 4, 1 / 2, 0.9, 1.5, 2.0, 4.0, 16.0)


def edits(inside: Inside) -> Iterator[Edit]:
    """Iterate over what becomes of the reference's bias in a port."""
    own = inside.recipe.bias
    if own is None or not bool((own != 0).any()):
        yield from _alibi(inside)
        return
    if _same_bias(inside):
        return
    bias = own.double()
    yield Edit("bias-missing", _missing(inside, bias), _Bias(None))
    yield Edit("bias-sign", "the bias has the other sign: it is subtracted", _Bias(-bias))
    yield from _scaled(inside, bias)
    yield from _heads(inside, bias)
    yield from _moved(inside, bias)
    yield from _slopes(inside, bias)
    yield from _unscaled(inside, bias)


def another(inside: Inside) -> Iterator[Edit]:
    """Propose the candidate's own bias, where it was read and has no better name."""
    hint = inside.hint
    if hint is None or hint.bias is None or _same_bias(inside):
        return
    theirs = hint.bias.double()
    own = inside.recipe.bias
    if own is None or not bool((own != 0).any()):
        text = (
            f"a bias of {tuple(theirs.shape)} between {number(float(theirs.min()))} and "
            f"{number(float(theirs.max()))} is added to the scores, where the reference adds none"
        )
        yield Edit("bias-extra", text, _Bias(theirs))
        return
    seen = _visible(inside)
    gap = (theirs - own.double()).abs().expand(seen.shape).masked_fill(~seen, 0.0)
    place = torch.unravel_index(gap.argmax(), gap.shape)
    sample, head, query, key = (int(index) for index in place)
    ours = float(theirs.expand(gap.shape)[place])
    had = float(own.expand(gap.shape)[place])
    text = (
        f"another bias: {number(ours)} where the reference has {number(had)}, at query {query}, "
        f"key {key} of sample {sample}, head {head}, where they differ most"
    )
    yield Edit("bias", text, _Bias(theirs))


def _alibi(inside: Inside) -> Iterator[Edit]:
    """Propose ALiBi where the candidate's bias can't be read and the reference has none."""
    heads, queries, keys = inside.sizes.heads, inside.sizes.queries, inside.sizes.keys
    if inside.hint is not None or heads < 2 or keys < 2:
        return
    slopes = 2.0 ** (-8 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
    distance = torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries)
    for how, far in (("the distance of query and key", -distance.abs()), ("key - query", distance)):
        text = (
            f"a bias of slope times {how} is added to the scores (ALiBi, slopes {numbers(slopes)}),"
            " where the reference adds none"
        )
        yield Edit("bias-extra", text, _Bias(slopes[None, :, None, None] * far))


class _Bias:
    """Puts a bias into a course, of the right sizes."""

    def __init__(self, bias: Bias | None) -> None:
        self._bias = bias

    def __call__(self, course: Course) -> Course:
        return replace(course, recipe=replace(course.recipe, bias=self._bias))


def _visible(inside: Inside) -> Visible:
    sizes = inside.sizes
    seen = inside.recipe.mask.dense(sizes.queries, sizes.keys)
    if inside.hint is not None:
        seen = seen & inside.hint.mask.dense(sizes.queries, sizes.keys)
    return seen.expand(sizes.batch, sizes.heads, sizes.queries, sizes.keys)


def _same_bias(inside: Inside) -> bool:
    """Return whether the candidate's bias was read, and is the reference's where both see."""
    hint, own = inside.hint, inside.recipe.bias
    if hint is None:
        return False
    seen = _visible(inside)
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    ours, theirs = (zero if b is None else b.double().to(seen.device) for b in (own, hint.bias))
    slack = _SAME * float(ours.abs().max())
    return bool((((ours - theirs).abs() <= slack) | ~seen).all())


def _missing(inside: Inside, bias: Tensor) -> str:
    seen = bias.expand(_visible(inside).shape)[_visible(inside)]
    if not seen.numel():
        return "the bias of the reference is missing"
    low, high = number(float(seen.min())), number(float(seen.max()))
    return f"no bias, where the reference adds one between {low} and {high} to the scores"


def _scaled(inside: Inside, bias: Tensor) -> Iterator[Edit]:
    scale = inside.recipe.scale
    if scale is None:
        return
    said = number(scale) if isinstance(scale, float) else "the scale"
    text = (
        f"the bias is multiplied by {said} too: (q·k + bias) · scale where the reference has "
        "q·k · scale + bias"
    )
    yield Edit("bias-scaled", text, _Bias(bias * scale))


def _unscaled(inside: Inside, bias: Tensor) -> Iterator[Edit]:
    scale = inside.recipe.scale
    if scale is None:
        return
    said = number(scale) if isinstance(scale, float) else "the scale"
    text = (
        f"the bias is not multiplied by {said}, as the reference's is: it is 1/{said} times larger"
    )
    yield Edit("bias-scaled", text, _Bias(bias / scale))


def _heads(inside: Inside, bias: Tensor) -> Iterator[Edit]:
    """Iterate over biases that meet other heads, and those that meet other samples."""
    heads = inside.sizes.heads
    if bias.shape[1] == heads > 1:
        orders: list[tuple[str, list[int]]] = [
            ("in reverse order", list(reversed(range(heads)))),
            ("shifted by one", [(head + 1) % heads for head in range(heads)]),
            ("shifted by minus one", [(head - 1) % heads for head in range(heads)]),
            ("of head 0 in all heads", [0] * heads),
        ]
        orders += [_tiled(heads, width) for width in _divisors(heads)]
        read = _read_order(inside, bias)
        if read is not None:
            orders.append((f"of the heads {read}", read))
        for how, order in orders:
            text = (
                f"the biases of the heads are {how}: head h has that of head "
                f"{tuple(order)}[h], where the reference has its own"
            )
            yield Edit("bias-heads", text, _Bias(bias[:, order]))
    if bias.shape[0] == inside.sizes.batch > 1:
        text = "each sample has the bias of another (in reverse order)"
        yield Edit("bias-heads", text, _Bias(bias.flip(0)))


def _divisors(heads: int) -> list[int]:
    return [width for width in range(2, heads) if heads % width == 0]


def _tiled(heads: int, width: int) -> tuple[str, list[int]]:
    """Return the order of heads that reads (heads / width, width) the other way round."""
    order = torch.arange(heads).view(heads // width, width).mT.flatten().tolist()
    return f"those of the groups of {width}, transposed", order


def _read_order(inside: Inside, bias: Tensor) -> list[int] | None:
    """Read from the candidate's bias which head's bias each head has."""
    if inside.hint is None or inside.hint.bias is None or inside.sizes.heads > _MOST_HEADS:
        return None
    theirs = inside.hint.bias.double()
    if theirs.shape[1] != bias.shape[1]:
        return None
    slack = _SAME * float(bias.abs().max())
    seen = _visible(inside).all(1, keepdim=True)
    apart = ((theirs[:, :, None] - bias[:, None]).abs() > slack) & seen[:, :, None]
    same = ~apart.flatten(3).any(-1).any(0)
    return same.to(torch.uint8).argmax(-1).tolist() if bool(same.any(-1).all()) else None


_MOST_HEADS = 128


def _moved(inside: Inside, bias: Tensor) -> Iterator[Edit]:
    """Iterate over biases with queries and keys exchanged, and by a distance that is off."""
    queries, keys = inside.sizes.queries, inside.sizes.keys
    full = bias.expand(*bias.shape[:2], queries, keys)
    if queries == keys:
        text = "queries and keys of the bias are exchanged: that of key - query stands at the other"
        yield Edit("bias-transposed", text, _Bias(full.mT))
    by_distance = _toeplitz(full)
    if by_distance is None:
        return
    place = torch.arange(keys) - torch.arange(queries)[:, None] + queries - 1
    for shift in dict.fromkeys((1, -1, keys - queries, queries - keys)):
        if shift:
            text = (
                f"the bias is that of a distance shifted by {shift:+d}, where the reference has "
                "that of key - query"
            )
            at = (place + shift).clamp(0, queries + keys - 2)
            yield Edit("bias-shifted", text, _Bias(by_distance[..., at]))


def _toeplitz(full: Tensor) -> Tensor | None:
    """Return the bias by key - query + queries - 1, where it depends on nothing else."""
    queries, keys = full.shape[-2:]
    if queries * keys < 4 or not full[..., 1:, 1:].numel():
        return None
    slack = _SAME * float(full.abs().max())
    if float((full[..., 1:, 1:] - full[..., :-1, :-1]).abs().max()) > slack:
        return None
    return torch.cat([full[..., 1:, 0].flip(-1), full[..., 0, :]], -1)


def _slopes(inside: Inside, bias: Tensor) -> Iterator[Edit]:
    """Iterate over multiples of the bias: by all heads, else by a ratio of its own in each."""
    ratios: list[float | Tensor] = list(_RATIOS)
    read = _read_ratio(inside, bias)
    if inside.hint is not None:
        ratios = [] if read is None else [read]
    else:
        heads = inside.sizes.heads
        if bias.shape[1] == heads:  # ALiBi from another first slope, or of another head count
            ratios += _other_alibi(bias)
        found = fitted(inside, lambda x: _Bias(bias * x)(inside.course), _STARTS, by_head=True)
        if found is not None:
            one = single(found)
            ratios.append(found if one is None else one)
    done: list[float] = []
    for ratio in ratios:
        if isinstance(ratio, float):
            if any(isclose(ratio, other, rel_tol=1e-6) for other in (*done, 1.0, -1.0)):
                continue
            done.append(ratio)
            how = f"{number(ratio)} times that of the reference"
        else:
            how = f"{numbers(ratio)} times that of the reference, by head"
        slopes = _said_slopes(bias, ratio)
        yield Edit("bias-slope", f"the bias is {how}{slopes}", _Bias(bias * ratio))


def _said_slopes(bias: Tensor, ratio: float | Tensor) -> str:
    """Name the slopes of a bias that falls in proportion to the distance (ALiBi)."""
    if bias.shape[-1] < 4:  # of fewer, any steps are alike
        return ""
    first = bias[0, :, -1] if bias.shape[-2] > 1 else bias[0, :, 0]
    steps = first.diff(dim=-1).abs()
    if float((steps[:, 1:-1] - steps[:, :1]).abs().max()) > _SAME * float(steps.max()):
        return ""
    slopes = steps[:, 0]
    theirs = slopes * (ratio.flatten().abs() if isinstance(ratio, Tensor) else abs(ratio))
    return f": slopes {numbers(theirs)} where the reference has {numbers(slopes)}"


def _other_alibi(bias: Tensor) -> list[float | Tensor]:
    """Return ratios to slopes that are a geometric series too: another start, another head count.

    ALiBi's slopes are r¹, r², … with r = 2^(-8/heads) (Press et al. 2022, section 3); a start at
    r⁰ or r² multiplies all of them, half or twice the heads raise each to a power.
    """
    largest = bias.abs().amax((0, 2, 3))
    if len(largest) < 2 or not bool((largest > 0).all()):
        return []
    step = single(largest[1:] / largest[:-1])
    if step is None:
        return []
    head = torch.arange(1, len(largest) + 1, dtype=torch.float64)
    powers = [step ** (head * (power - 1)) for power in (0.5, 2.0)]
    return [step, 1 / step, *(power.reshape(1, -1, 1, 1) for power in powers)]


def _read_ratio(inside: Inside, bias: Tensor) -> float | Tensor | None:
    """Return the candidate's bias over the reference's, a number or one a head."""
    if inside.hint is None or inside.hint.bias is None:
        return None
    seen = _visible(inside)
    ours = bias.expand(seen.shape).masked_fill(~seen, 0.0)
    theirs = inside.hint.bias.double().expand(seen.shape).masked_fill(~seen, 0.0)
    square = ours.square().sum((0, 2, 3), keepdim=True)
    ratio = (ours * theirs).sum((0, 2, 3), keepdim=True) / square.clamp_min(1e-300)
    if float((theirs - ours * ratio).abs().max()) > _SAME * float(theirs.abs().max()):
        return _read_ratio_of_slopes(ours, theirs, seen)
    one = single(ratio)
    return ratio if one is None else one


def _read_ratio_of_slopes(ours: Tensor, theirs: Tensor, seen: Visible) -> Tensor | float | None:
    """Return the ratio where the two differ by a number a row as well, which no softmax notices."""
    count = seen.sum(-1, keepdim=True).clamp_min(1)
    ours, theirs = (
        (x - x.sum(-1, keepdim=True) / count).masked_fill(~seen, 0.0) for x in (ours, theirs)
    )
    square = ours.square().sum((0, 2, 3), keepdim=True)
    ratio = (ours * theirs).sum((0, 2, 3), keepdim=True) / square.clamp_min(1e-300)
    if float((theirs - ours * ratio).abs().max()) > _SAME * float(theirs.abs().max()):
        return None
    one = single(ratio)
    return ratio if one is None else one
