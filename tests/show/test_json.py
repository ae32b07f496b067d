"""The schema attnscope.trace/1: exactly these keys, and valid JSON whatever the numbers are."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import torch

from attnscope.calls import Call, Trace
from attnscope.calls.trace import Unseen
from attnscope.show.json import to_text, trace_json

CallMaker = Callable[..., Call]

KEYS = [
    "index",
    "module",
    "source",
    "kind",
    "batch",
    "heads",
    "kv_heads",
    "queries",
    "keys",
    "head_dim",
    "value_dim",
    "scale",
    "mask",
    "bias",
    "softcap",
    "sinks",
    "dropout",
    "replay_error",
    "stats",
]


def read(trace: Trace) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise AssertionError(name)

    made: dict[str, Any] = json.loads(to_text(trace_json(trace, "net.py")), parse_constant=refuse)
    return made


def test_the_keys_are_those_of_the_schema(layers: Trace) -> None:
    layers.unseen.append(Unseen("blocks.3", "compiled"))
    data = read(layers)
    assert list(data) == ["schema", "target", "torch", "calls", "unseen"]
    assert data["schema"] == "attnscope.trace/1"
    assert data["target"] == "net.py"
    assert data["torch"] == torch.__version__
    assert data["unseen"] == [{"module": "blocks.3", "reason": "compiled"}]
    call = data["calls"][2]
    assert list(call) == KEYS
    assert list(call["source"]) == ["file", "line", "function"]
    assert call["mask"]["kind"] == "causal"
    assert math.isclose(call["mask"]["visible"], 21 / 36)
    assert call["stats"]["entropy"] == list(layers[2].numbers().entropy)
    assert len(call["stats"]["max_weight"]) == 4
    assert (call["bias"], call["sinks"], call["softcap"]) == (False, False, None)


def test_what_is_no_number_is_null(make_call: CallMaker) -> None:
    call = make_call(0, scale=math.inf, error=math.nan)
    call.q[:] = math.nan
    data = read(Trace([call]))["calls"][0]
    assert data["scale"] is None
    assert data["replay_error"] is None
    assert data["stats"]["entropy"] == [None] * 4


def test_tensors_become_lists_and_what_was_not_read_null(make_call: CallMaker) -> None:
    scale = torch.tensor([0.5, 0.25, 0.125, 1.0]).view(1, 4, 1, 1)
    calls = [
        make_call(0, scale=scale, bias=torch.zeros(1, 1, 6, 6), sinks=torch.zeros(1, 4, 1, 1)),
        make_call(1, scale=None, unknown=("scale", "bias", "sinks")),
    ]
    first, second = read(Trace(calls))["calls"]
    assert first["scale"] == [0.5, 0.25, 0.125, 1.0]
    assert (first["bias"], first["sinks"]) == (True, True)
    assert (second["scale"], second["bias"], second["sinks"]) == (None, None, None)
    assert second["stats"] == {"entropy": [], "max_weight": []}
