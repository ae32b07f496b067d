"""Pairs as the user says them: `map=`, a dict or a file, and what can't be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attnscope.differ.weights import pair
from attnscope.errors import InputError
from tests.differ.skeletons import linear, modules, qkv


def test_a_map_says_it_and_the_rest_goes_by_itself(tmp_path: Path) -> None:
    reference = modules(fused=linear(16, 48), fc1=linear(16, 24), odd=linear(16, 16, bias=False))
    candidate = modules(
        alpha=linear(16, 16),
        beta=linear(16, 16),
        fc1=linear(16, 24),
        odd=linear(16, 16, bias=False),
    )
    entries: dict[str, Any] = {
        "alpha.weight": {"from": "fused.weight", "rows": [0, 16]},
        "alpha.bias": {"from": "fused.bias", "rows": [0, 16]},
        "beta.weight": [
            {"from": "fused.weight", "rows": [32, 48], "heads": 4, "order": [3, 2, 1, 0]}
        ],
        "beta.bias": [
            {"from": "fused.bias", "rows": [32, 40]},
            {"from": "fused.bias", "rows": [16, 24]},
        ],
        "odd.weight": {"from": "odd.weight", "transpose": True},
    }
    path = tmp_path / "map.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    for wish in (entries, path, str(path), f"map={path}"):
        found = pair(candidate, reference, wish, strict=False)
        assert found["alpha.weight"].method == "given"
        assert found["fc1.weight"].method == "name"
        assert found["beta.weight"].how == "heads permuted [11, 10, 9, 8], 4 rows each"
        assert found["odd.weight"].how == "transposed"
    found.apply()
    fused = reference.get_parameter("fused.weight")
    assert torch.equal(candidate.get_parameter("beta.weight")[:4], fused[44:48])
    bias = reference.get_parameter("fused.bias")
    assert torch.equal(candidate.get_parameter("beta.bias"), torch.cat([bias[32:40], bias[16:24]]))


def test_what_a_pairing_writes_a_map_reads() -> None:
    reference = modules(q_proj=linear(16, 16), k_proj=linear(16, 16), v_proj=linear(16, 16))
    candidate = modules(c_attn=linear(16, 48))
    first = pair(candidate, reference)
    second = pair(candidate, reference, json.loads(json.dumps(first.as_map())))
    assert [one.arrangement for one in second] == [one.arrangement for one in first]
    assert {one.method for one in second} == {"given"}


def test_a_map_converts_rotary_rows_fills_and_leaves_alone() -> None:
    reference = modules(q=linear(16, 16, bias=False), k=linear(16, 16, bias=False))
    candidate = modules(
        a=linear(16, 16, bias=False),
        b=linear(16, 16, bias=False),
        c=linear(16, 3, bias=False),
        d=linear(16, 5, bias=False),
    )
    before = candidate.get_parameter("d.weight").detach().clone()
    found = pair(
        candidate,
        reference,
        {
            "a.weight": {"from": "q.weight", "heads": 2, "rotary": "halves"},
            "b.weight": {"from": "k.weight", "heads": 2, "rotary": "interleaved"},
            "c.weight": 0.5,
            "d.weight": None,
        },
    )
    found.apply()
    q, k = (reference.get_parameter(f"{name}.weight") for name in "qk")
    halves = q.view(2, 4, 2, 16).transpose(1, 2).reshape(16, 16)
    pairs = k.view(2, 2, 4, 16).transpose(1, 2).reshape(16, 16)
    assert torch.equal(candidate.get_parameter("a.weight"), halves)
    assert torch.equal(candidate.get_parameter("b.weight"), pairs)
    assert bool((candidate.get_parameter("c.weight") == 0.5).all())
    assert torch.equal(candidate.get_parameter("d.weight"), before)
    assert [(left.name, left.why) for left in found.left] == [("d.weight", "left alone by map=")]


@pytest.mark.parametrize(
    ("entries", "found", "todo"),
    [
        (
            {"q_prj.weight": "W_q.weight"},
            "the candidate has no parameter 'q_prj.weight'",
            "did you mean q_proj.weight",
        ),
        (
            {"q_proj.weight": "W_qq.weight"},
            "the reference has no parameter 'W_qq.weight'",
            "did you mean W_q.weight",
        ),
        (
            {"q_proj.weight": {"from": "W_q.weight", "rows": [0, 8]}},
            (
                "q_proj.weight (16, 16) needs 16 rows of 16,"
                " and W_q.weight (16, 16) gives 8 rows of 16"
            ),
            'cut it with {"from": ..., "rows": [a, b]}',
        ),
        (
            {"q_proj.weight": {"from": "W_q.weight", "rows": [8, 40]}},
            "[8, 40] lies outside the 16 rows of W_q.weight (16, 16)",
            "count from 0",
        ),
        (
            {"q_proj.weight": {"frm": "W_q.weight"}},
            'the entry {"frm": "W_q.weight"} for q_proj.weight can\'t be read',
            'give a name, {"from": name',
        ),
        (
            {"ignore": ["W_q.*", "W_v.weigh"]},
            "the reference has no parameter 'W_v.weigh'",
            "did you mean W_v.weight",
        ),
    ],
)
def test_a_map_that_does_not_fit_is_an_error(
    entries: dict[str, Any], found: str, todo: str
) -> None:
    with pytest.raises(InputError) as caught:
        pair(qkv("{}_proj"), qkv("W_{}"), entries)
    assert caught.value.doing == "reading map="
    assert caught.value.found == found
    assert caught.value.todo.startswith(todo)


def test_a_wish_that_is_none_is_an_error() -> None:
    with pytest.raises(InputError, match="there is no 'atuo'; use \"auto\""):
        pair(qkv("{}_proj"), qkv("W_{}"), "atuo")


@pytest.mark.parametrize(("text", "found"), [("[1]", "holds a list"), ("{", "holds no JSON")])
def test_a_file_that_holds_no_map_is_an_error(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "map.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=found):
        pair(qkv("{}_proj"), qkv("W_{}"), path)
    with pytest.raises(InputError, match="can't be read"):
        pair(qkv("{}_proj"), qkv("W_{}"), tmp_path / "none.json")
