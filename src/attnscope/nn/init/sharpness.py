"""How sharp one attention call is: spread of its scores, entropy of its weights, and the limits.

All that is said about scores is said within a row, over the keys that its query may see: a constant
added to a row changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.axes import PerRow, Scores, Weights
from attnscope.calls.call import Call
from attnscope.errors import ReplayError
from attnscope.nn.init.limits import saturated_below, uniform_above

__all__ = ["Entropy", "Sharpness", "sharpness_of"]

_DISTRIBUTIONS = frozenset({"softmax", "softmax-off-by-one", "sparsemax", "entmax"})
_TWO = 2  # keys: with one there is nothing to choose


@dataclass(frozen=True, slots=True)
class Entropy:
    """Entropy of the weights over the log of the visible keys, means over batch and queries.

    shares: by head; content: the same without the bias on the scores, which is what q and k decide;
    low, high: limits of saturated and uniform (see `limits`), means over the same rows.
    """

    shares: tuple[float, ...]
    content: tuple[float, ...]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sharpness:
    """Numbers of one call; None where they can't be told, with the reason in `notes`.

    q, k, v, raw_scores: std over all entries, of `q·k` before any scale; scores: the root of the
    mean variance within a row; keys: mean number of visible keys.
    """

    q: float | None
    k: float | None
    v: float | None
    raw_scores: float | None
    scores: float | None
    keys: float | None
    entropy: Entropy | None
    notes: tuple[str, ...]


@torch.no_grad()
def sharpness_of(call: Call) -> Sharpness:
    """Measure one call."""
    notes: list[str] = []

    def get(what: str, derive: Callable[[], Tensor]) -> Tensor | None:
        try:
            return derive()
        except ReplayError as error:
            notes.append(f"{what}: {error.found}")
            return None

    q, k, v = get("q", lambda: call.q), get("k", lambda: call.k), get("v", lambda: call.v)
    raw = get("raw scores", lambda: _raw_scores(call))
    scores = get("scores", call.scores)
    visible = _visible(call, scores) if scores is not None else None
    weights = get("weights", call.weights)
    entropy = None
    if scores is not None and weights is not None and visible is not None:
        entropy = _entropy(call, scores.double(), weights.double(), visible, notes)
    return Sharpness(
        q=_std(q),
        k=_std(k),
        v=_std(v),
        raw_scores=_std(raw),
        scores=_row_std(scores, visible),
        keys=float(visible.sum(-1).double().mean()) if visible is not None else None,
        entropy=entropy,
        notes=tuple(notes),
    )


# -- scores ----------------------------------------------------------------------------------------


def _raw_scores(call: Call) -> Scores:
    met = call.recipe.kv_head_of(call.heads, call.kv_heads)
    return call.q @ call.k[:, list(met)].mT


def _visible(call: Call, scores: Scores) -> Tensor:
    """Return what each query may see, for every batch, head and query of `scores`."""
    seen = scores > torch.finfo(scores.dtype).min / 2  # a mask may be -inf or the lowest number
    if "mask" not in call.recipe.unknown and call.recipe.mask.hides:
        seen = seen & call.recipe.mask.dense(call.queries, call.keys, scores.device)
    return seen


def _std(tensor: Tensor | None) -> float | None:
    if tensor is None or not tensor.numel():
        return None
    return float(tensor.double().std(correction=0))


def _row_std(scores: Scores | None, visible: Tensor | None) -> float | None:
    """Return the root of the mean variance within a row, over rows with two keys or more."""
    if scores is None or visible is None:
        return None
    counts = visible.sum(-1)
    rows = counts >= _TWO
    if not bool(rows.any()):
        return None
    known = scores.double().masked_fill(~visible, 0.0)
    mean = known.sum(-1, keepdim=True) / counts.unsqueeze(-1).clamp_min(1)
    squares = (known - mean).masked_fill(~visible, 0.0).square().sum(-1)
    return float((squares / (counts - 1).clamp_min(1))[rows].mean().sqrt())


# -- entropy ---------------------------------------------------------------------------------------


def _entropy(
    call: Call, scores: Scores, weights: Weights, visible: Tensor, notes: list[str]
) -> Entropy | None:
    recipe = call.recipe
    if recipe.normaliser not in _DISTRIBUTIONS or recipe.normaliser_axis != "keys":
        how = f"{recipe.normaliser} over the {recipe.normaliser_axis}"
        notes.append(f"entropy: the weights ({how}) are no distribution over the keys")
        return None
    counts = visible.sum(-1)  # batch heads queries
    rows = (counts >= _TWO) & ~weights.isnan().any(-1)
    if not bool(rows.any()):
        notes.append("entropy: no query sees two keys, there is nothing to attend between")
        return None
    outcomes = counts.double() + _has_sinks(call)  # what sinks take is one more outcome
    shares = _by_head(_share(weights, outcomes), rows)
    content = shares
    if recipe.bias is not None:
        bias = recipe.bias.to(scores).broadcast_to(scores.shape)
        plain = (scores - bias).masked_fill(~visible, -math.inf)
        content = _by_head(_share(recipe.normalise(plain), outcomes), rows)
    found, times = counts[rows].unique(return_counts=True)
    low = [saturated_below(int(n)) for n in found]
    high = [uniform_above(int(n)) for n in found]
    return Entropy(shares, content, _mean(low, times), _mean(high, times))


def _has_sinks(call: Call) -> bool:
    return call.recipe.sinks is not None or call.recipe.normaliser == "softmax-off-by-one"


def _share(weights: Weights, outcomes: PerRow) -> PerRow:
    """Return H / log n for each row of n outcomes; what is left of a row is one of them."""
    weights = weights.clamp_min(0)
    left = (1 - weights.sum(-1)).clamp(0, 1)  # 0 but for sinks, up to rounding
    entropy = torch.special.entr(weights).sum(-1) + torch.special.entr(left)
    shares: Tensor = entropy / outcomes.clamp_min(_TWO).log()
    return shares


def _by_head(values: PerRow, rows: Tensor) -> tuple[float, ...]:
    total = values.masked_fill(~rows, 0.0).sum((0, 2))
    return tuple((total / rows.sum((0, 2))).tolist())


def _mean(values: list[float], times: Tensor) -> float:
    weights = times.double()
    return float((torch.tensor(values, dtype=torch.float64) * weights).sum() / weights.sum())
