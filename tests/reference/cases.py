"""Generated attentions, each part of them optional, and the same formula in torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from attnscope.calls.normalisers import NORMALISERS
from attnscope.calls.tolerance import largest_relative, replay

Array = NDArray[Any]

PARTS = (
    "scale number",
    "scale array",
    "mask pairs",
    "mask keys",
    "mask with empty rows",
    "causal top-left",
    "causal bottom-right",
    "bias full",
    "bias a head",
    "bias a key",
    "softcap",
    "sinks number",
    "sinks a head",
    "sinks two a row",
    "dropout",
    "tiled",
    "kv map",
    "zero",
    "uniform",
    *(f"normaliser {name}" for name in NORMALISERS if name != "softmax"),
)


@dataclass(frozen=True)
class Case:
    """One attention: its arrays, and its options as `reference.attention` takes them."""

    q: Array
    k: Array
    v: Array
    options: dict[str, Any]
    parts: frozenset[str]


def make(sizes: dict[str, int], rank: int, parts: frozenset[str], seed: int) -> Case:
    """Return the attention of these sizes and parts; later parts of one kind replace earlier."""
    rng = np.random.default_rng(seed)
    heads = sizes["kv_heads"] * sizes["group"]
    kv_lead = (sizes["batch"], sizes["kv_heads"])[4 - rank :] if rank > 2 else ()
    lead = (sizes["batch"], heads)[4 - rank :] if rank > 2 else ()
    queries, keys = sizes["queries"], sizes["keys"]
    q = rng.normal(size=(*lead, queries, sizes["head_dim"]))
    k = rng.normal(size=(*kv_lead, keys, sizes["head_dim"]))
    v = rng.normal(size=(*kv_lead, keys, sizes["value_dim"]))
    wide = (*lead, queries, keys)
    a_head = (heads, 1, 1) if rank > 2 else (1, 1)
    met = rng.integers(sizes["kv_heads"], size=heads).tolist()
    made: dict[str, dict[str, Any]] = {
        "scale number": {"scale": 0.3},
        "scale array": {"scale": rng.uniform(0.2, 0.8, size=a_head)},
        "mask pairs": {"mask": rng.random(wide) < 0.7},
        "mask keys": {"mask": rng.random((*(1 for _ in lead), 1, keys)) < 0.7},
        "mask with empty rows": {"mask": rng.random((queries, 1)) < 0.5},
        "causal top-left": {"causal": "top-left"},
        "causal bottom-right": {"causal": "bottom-right"},
        "bias full": {"bias": rng.normal(size=wide)},
        "bias a head": {"bias": rng.normal(size=(*a_head[:-2], queries, keys))},
        "bias a key": {"bias": rng.normal(size=keys)},
        "softcap": {"softcap": 1.5},
        "sinks number": {"sinks": 0.4},
        "sinks a head": {"sinks": rng.normal(size=a_head)},
        "sinks two a row": {"sinks": rng.normal(size=(queries, 2))},
        "dropout": {"keep": rng.random(wide) < 0.6, "dropout": 0.4},
        "tiled": {"kv_map": "tiled"} if rank > 2 else {},
        "kv map": {"kv_map": met} if rank > 2 else {},
        "zero": {"empty_row": "zero"},
        "uniform": {"empty_row": "uniform"},
    }
    options: dict[str, Any] = {}
    for part in PARTS:
        if part in parts:
            kind, _, name = part.partition(" ")
            options |= {"normaliser": name} if kind == "normaliser" else made[part]
    return Case(q, k, v, options, parts)


SIZES = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 3),
        "kv_heads": st.integers(1, 3),
        "group": st.integers(1, 3),
        "queries": st.integers(1, 5),
        "keys": st.integers(1, 6),
        "head_dim": st.integers(1, 6),
        "value_dim": st.integers(1, 5),
    }
)
CASES = st.builds(
    make,
    SIZES,
    rank=st.sampled_from([2, 3, 4]),
    parts=st.frozensets(st.sampled_from(PARTS), max_size=6),
    seed=st.integers(0, 2**32 - 1),
)


def in_torch(case: Case) -> dict[str, Tensor]:
    """Return arguments (as leaves) and steps of the case, computed by torch in float64."""
    options = case.options
    given = {"scale": case.q.shape[-1] ** -0.5, "q": case.q, "k": case.k, "v": case.v, **options}
    leaf = {
        name: torch.tensor(np.asarray(value), dtype=torch.float64, requires_grad=True)
        for name, value in given.items()
        if name in {"q", "k", "v", "bias", "sinks", "scale"}
    }
    k, v = (_expanded(leaf[name], case) for name in "kv")
    raw = leaf["q"] @ k.mT
    cap = options.get("softcap")
    scores = leaf["scale"] * raw
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    scores = scores + leaf.get("bias", 0)
    scores = scores.masked_fill(~_visible(case, scores), float("-inf"))
    columns = scores
    if "sinks" in leaf:
        sinks = leaf["sinks"].reshape(leaf["sinks"].shape or (1,))
        sinks = sinks.expand(*scores.shape[:-1], sinks.shape[-1])
        columns = torch.cat([scores, sinks], -1)
    name = options.get("normaliser", "softmax")
    weights = NORMALISERS[name](columns, -1)[..., : scores.shape[-1]]
    empty = columns.isneginf().all(-1, keepdim=True)
    if (rule := options.get("empty_row")) is not None:
        weights = weights.masked_fill(empty, 0.0 if rule == "zero" else 1 / scores.shape[-1])
    dropped = weights
    if "keep" in options:
        dropped = weights * torch.from_numpy(options["keep"]) / (1 - options["dropout"])
    lse = columns.logsumexp(-1)
    if name == "softmax-off-by-one":
        lse = torch.logaddexp(lse, torch.zeros_like(lse))
    steps = {"raw_scores": raw, "scores": scores, "weights": weights, "dropped_weights": dropped}
    return leaf | steps | {"context": dropped @ v, "logsumexp": lse}


def _expanded(x: Tensor, case: Case) -> Tensor:
    if x.dim() == 2:
        return x
    kv_heads, heads = x.shape[-3], case.q.shape[-3]
    order = case.options.get("kv_map", "repeated")
    if order == "repeated":
        return x.repeat_interleave(heads // kv_heads, -3)
    if order == "tiled":
        return torch.cat([x] * (heads // kv_heads), -3)
    return x.index_select(-3, torch.tensor(order))


def _visible(case: Case, scores: Tensor) -> Tensor:
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool)
    queries, keys = seen.shape
    if (corner := case.options.get("causal")) is not None:
        seen = seen.tril(0 if corner == "top-left" else keys - queries)
    mask = case.options.get("mask")
    return seen if mask is None else seen & torch.from_numpy(mask)


def far(found: object, expected: Tensor, case: Case, chains: int = 1, floor: float = 0.0) -> str:
    """Return by how much two results differ where it is more than rounding, else "".

    chains: how many times as many roundings as the context a value went through.
    floor: the size of what was summed, where the sum may be zero in theory.
    """
    mine = torch.from_numpy(np.asarray(found))
    level = torch.full((1,), floor, dtype=torch.float64)  # a further entry, equal in both
    if mine.shape != expected.shape:
        return f"{mine.shape} is not {expected.shape}"
    gap = largest_relative(*(torch.cat([x.reshape(-1), level]) for x in (mine, expected)))
    bound = chains * replay(torch.float64, case.k.shape[-2], case.q.shape[-1])
    return "" if gap <= bound else f"{gap} > {bound} for {sorted(case.parts)}"
