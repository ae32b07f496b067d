"""A trace as plain data, in the schema `attnscope.trace/1`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import torch

from attnscope.calls import Call, Trace
from attnscope.show.words import error_of, numbers_of, recipe_of

SCHEMA = "attnscope.trace/1"


def trace_json(trace: Trace, target: str, calls: Sequence[Call] | None = None) -> dict[str, Any]:
    """Return a trace as plain data that every JSON parser reads.

    `scale`, `bias` and `sinks` are null where they could not be read; `bias` and `sinks` else say
    whether there are any. A scale per head is a list. Numbers that are not finite are null.

    Args:
        trace: what was seen.
        target: the TARGET.
        calls: the calls to list; None lists all.
    """
    listed = list(trace) if calls is None else list(calls)
    data = {
        "schema": SCHEMA,
        "target": target,
        "torch": str(torch.__version__),
        "calls": [_call(call) for call in listed],
        "unseen": [region.to_json() for region in trace.unseen],
    }
    made: dict[str, Any] = plain(data)
    return made


def to_text(data: dict[str, Any]) -> str:
    """Return plain data as indented JSON."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False)


def _call(call: Call) -> dict[str, Any]:
    made = recipe_of(call).to_json()
    numbers = numbers_of(call)
    unread = set(recipe_of(call).unknown)
    return {
        "index": call.index,
        "module": call.module,
        "source": call.source.to_json(),
        "kind": call.kind,
        "batch": call.batch,
        "heads": call.heads,
        "kv_heads": call.kv_heads,
        "queries": call.queries,
        "keys": call.keys,
        "head_dim": call.head_dim,
        "value_dim": call.value_dim,
        "scale": made["scale"],
        "mask": made["mask"],
        "bias": None if "bias" in unread else made["bias"],
        "softcap": made["softcap"],
        "sinks": None if "sinks" in unread else made["sinks"],
        "dropout": made["dropout"],
        "replay_error": error_of(call),
        "stats": numbers.to_json() if numbers else {"entropy": [], "max_weight": []},
    }


def plain(value: Any) -> Any:
    """Return plain data with null for every number that JSON can't write."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
