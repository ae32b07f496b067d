"""`attnscope verify` on files of one's own: exit status, JSON, the table, functions, two files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Runner = Callable[..., Any]

FUNCTIONS = """
import math
import numpy as np
import torch
import torch.nn.functional as F

def sound(q, k, v):
    print("a function prints while it runs")
    return F.scaled_dot_product_attention(q, k, v)

def by_hand(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v

def scaled_twice(q, k, v):
    return (q @ k.mT / q.shape[-1]).softmax(-1) @ v

def in_numpy(q, k, v):
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", powers / powers.sum(-1, keepdims=True), v)

def in_numpy_over_queries(q, k, v):
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    powers = np.exp(scores - scores.max(-2, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", powers / powers.sum(-2, keepdims=True), v)

def never_finite(q, k, v):
    return by_hand(q, k, v) * float("nan")
"""

MODEL = """
import torch
from torch import nn
from helper import SCALE

print("a library prints while it is imported")

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            project(x).unflatten(-1, (4, 4)).transpose(1, 2)
            for project in (self.to_q, self.to_k, self.to_v)
        )
        weights = (q @ k.mT * SCALE).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))

model = Own
inputs = {"x": torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1))}
"""


@pytest.fixture(autouse=True)
def files(here: Path) -> Path:
    (here / "functions.py").write_text(FUNCTIONS)
    for folder, scale in (("mine", 0.25), ("theirs", 0.5)):
        (here / folder).mkdir()
        (here / folder / "model.py").write_text(MODEL)
        (here / folder / "helper.py").write_text(f"SCALE = {scale}\n")
    return here


def read(done: Any) -> dict[str, Any]:
    """Return the JSON of a run; no NaN, no Infinity."""

    def refuse(token: str) -> None:
        pytest.fail(f"{token} is no JSON")

    made: dict[str, Any] = json.loads(done.out, parse_constant=refuse)
    return made


FIELDS = {
    "schema", "candidate", "reference", "equal", "compared", "conditions", "first_difference",
    "stages",
}  # fmt: skip
FIRST = {
    "stage", "call", "module", "source", "index", "largest", "own_error", "inherited_error",
    "explanation",
}  # fmt: skip


def test_json_of_a_difference_is_as_promised(attnscope: Runner) -> None:
    done = attnscope("verify", "mine/model.py", "theirs/model.py", "--format", "json")
    found = read(done)
    assert done.status == 1
    assert set(found) >= FIELDS
    assert (found["schema"], found["equal"]) == ("attnscope.verify/1", False)
    assert (found["candidate"], found["reference"]) == ("mine/model.py", "theirs/model.py")
    assert found["compared"] == len(found["stages"]) > 0
    first = found["first_difference"]
    assert set(first) >= FIRST
    assert (first["stage"], first["call"], first["explanation"]["key"]) == ("scores", 0, "scale")
    assert set(first["source"]) == {"file", "line", "function"}
    assert first["source"]["file"].endswith("mine/model.py")
    assert len(first["index"]) == 4
    assert set(first["explanation"]) >= {"key", "text", "remains"}
    assert all({"stage", "call", "largest", "equal"} <= set(stage) for stage in found["stages"])


def test_json_of_equal_sides_has_no_first_difference(attnscope: Runner) -> None:
    done = attnscope("verify", "mine/model.py", "mine/model.py", "--format", "json")
    found = read(done)
    assert (done.status, found["equal"], found["first_difference"]) == (0, True, None)
    assert all(stage["equal"] for stage in found["stages"])
    assert any(stage["stage"].startswith("grad.") for stage in found["stages"])


def test_json_has_no_token_that_is_no_json(attnscope: Runner) -> None:
    words = ("functions.py:never_finite", "functions.py:by_hand", "--format", "json")
    done = attnscope("verify", *words)
    found = read(done)
    assert done.status == 1
    assert found["first_difference"]["verdict"] == "non-finite"


def test_the_table_begins_with_the_verdict_and_fits(attnscope: Runner) -> None:
    done = attnscope("verify", "mine/model.py", "theirs/model.py")
    lines = done.out.splitlines()
    assert done.status == 1
    assert lines[0] == "mine/model.py against theirs/model.py: not equal"
    assert lines[1].startswith("first at scores of call 0")
    assert "mine/model.py:" in lines[1]
    assert "because  scale: scores times 0.25" in done.out
    assert max(map(len, lines)) <= 100


def test_results_alone_are_on_standard_output(attnscope: Runner) -> None:
    done = attnscope("verify", "mine/model.py", "mine/model.py")
    assert done.out.splitlines()[0] == "mine/model.py against mine/model.py: equal"
    assert "prints while" not in done.out
    assert "a library prints while it is imported" in done.err


@pytest.mark.parametrize(
    ("candidate", "reference", "status"),
    [
        ("functions.py:sound", "functions.py:by_hand", 0),
        ("functions.py:scaled_twice", "functions.py:by_hand", 1),
        ("functions.py:by_hand", "torch.nn.functional:scaled_dot_product_attention", 0),
        ("torch.nn.functional:scaled_dot_product_attention", "attnscope.reference", 0),
        ("functions.py:in_numpy", "attnscope.reference:attention", 0),
        ("functions.py:by_hand", "functions.py:in_numpy", 0),
        ("functions.py:scaled_twice", "functions.py:in_numpy", 1),
        ("functions.py:in_numpy_over_queries", "functions.py:by_hand", 1),
        ("mine/model.py", "functions.py:in_numpy", 1),
        ("theirs/model.py", "attnscope.reference", 0),
        ("attnscope.reference", "theirs/model.py", 0),
    ],
)
def test_functions_in_torch_and_numpy(
    attnscope: Runner, candidate: str, reference: str, status: int
) -> None:
    done = attnscope("verify", candidate, reference, "--no-matrix", "--format", "json")
    found = read(done)
    assert done.status == status, done.err
    assert found["equal"] is (status == 0)
    assert found["compared"] > 0


def test_expect_reaches_the_comparison(attnscope: Runner, files: Path) -> None:
    causal = "import torch.nn.functional as F\ndef causal(q, k, v):\n    return F."
    text = f"{causal}scaled_dot_product_attention(q, k, v, is_causal=True)\n"
    (files / "causal.py").write_text(text)
    words = ("verify", "theirs/model.py", "attnscope.reference", "--no-matrix")
    assert attnscope(*words).status == 0
    assert attnscope(*words, "--expect", "causal=true").status == 1
    assert attnscope("verify", "theirs/model.py", "causal.py:causal", "--no-matrix").status == 1


# -- options -------------------------------------------------------------------------------------


def test_inputs_weights_and_gradients_are_as_asked(attnscope: Runner, files: Path) -> None:
    (files / "given.py").write_text("import torch\nx = torch.ones(3, 4, 16)\n")
    words = ("verify", "mine/model.py", "mine/model.py", "--format", "json", "--no-matrix")
    usual = read(attnscope(*words))
    other = read(attnscope(*words, "--inputs", "given.py:x", "--no-gradients"))
    assert any("(2, 5, 16)" in str(each) for each in usual["conditions"])
    assert any("(3, 4, 16)" in str(each) for each in other["conditions"])
    assert not any(stage["stage"].startswith("grad.") for stage in other["stages"])
    assert (usual["cases"], other["cases"]) == ([], [])


def test_weights_are_copied_kept_or_mapped(attnscope: Runner, files: Path) -> None:
    (files / "pairs.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Swapped(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)\n"
        "    def forward(self, x):\n        return self.first(x).relu() @ self.second.weight\n"
        "class Other(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)\n"
        "    def forward(self, x):\n        return self.one(x).relu() @ self.two.weight\n"
        "inputs = (torch.ones(2, 3, 8),)\n"
    )
    names = {"first": "one", "second": "two"}
    pairs = {f"{a}.{p}": f"{b}.{p}" for a, b in names.items() for p in ("weight", "bias")}
    (files / "map.json").write_text(json.dumps(pairs))
    words = ("verify", "pairs.py:Swapped", "pairs.py:Other", "--no-matrix", "--weights")
    assert attnscope(*words, "map=map.json").status == 0
    assert attnscope(*words, "keep").status == 1


def test_a_tolerance_wide_enough_makes_them_equal(attnscope: Runner) -> None:
    words = ("verify", "mine/model.py", "theirs/model.py", "--no-matrix", "--tolerance")
    assert attnscope(*words, "1").status == 1
    assert attnscope(*words, "1e9").status == 0


def test_all_shows_every_stage_and_pair(attnscope: Runner) -> None:
    words = ("verify", "mine/model.py", "theirs/model.py", "--no-matrix")
    short, whole = attnscope(*words), attnscope(*words, "--all")
    assert "by itself" in whole.out.splitlines()[9]
    assert len(whole.out.splitlines()) > len(short.out.splitlines())
    assert max(map(len, whole.out.splitlines())) <= 100


def test_what_nobody_seeded_is_the_same_next_time(attnscope: Runner) -> None:
    words = ("verify", "mine/model.py", "theirs/model.py", "--no-matrix", "--format", "json")
    first, again = attnscope(*words), attnscope(*words)
    assert first.out == again.out
    assert attnscope(*words, "--seed", "5").out != first.out


SEEDED = """
import torch
from torch import nn

class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out((q @ k.mT / 8**0.5).softmax(-1) @ v)

class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return self.out((q @ k.mT / 8**0.5).softmax(-1) @ v)

def seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return Fused()

inputs = {"x": torch.ones(2, 3, 8)}
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_a_model_that_nobody_seeded_shares_no_numbers_with_a_seeded_one(
    attnscope: Runner, files: Path, seed: int
) -> None:
    (files / "seeded.py").write_text(SEEDED.replace("SEED", str(seed)))
    words = ("verify", "seeded.py:Split", "seeded.py:seeded", "--no-matrix", "--seed", str(seed))
    done = attnscope(*words, "--format", "json")
    assert done.status == 0, done.err
    assert {pair["proof"] for pair in read(done)["weights"]["pairs"]} == {"copied"}


def test_help_names_the_command_with_its_example(attnscope: Runner) -> None:
    assert "attnscope verify examples/port_llama.py:mine arch:llama" in attnscope("--help").out
    told = attnscope("verify", "--help")
    assert told.status == 0
    assert "--weights auto|keep|copy|map=FILE" in told.out


# -- shrinking -----------------------------------------------------------------------------------

FAULTY = ("verify", "functions.py:scaled_twice", "functions.py:by_hand", "--shrink")


def test_the_smallest_failure_follows_the_result_as_a_program(attnscope: Runner) -> None:
    done = attnscope(*FAULTY)
    assert done.status == 1
    assert "smallest inputs that still fail: batch 2 → 1, heads 3 → 1" in done.out
    program = done.out[done.out.index('"""functions.py:scaled_twice differs') :]
    compile(program, "program.py", "exec")
    found = read(attnscope(*FAULTY, "--format", "json"))["shrunk"]
    assert found["before"]["batch"] == 2
    assert found["after"]["batch"] == 1
    assert found["first_difference"]["explanation"]["key"] == "scale"
    assert found["script"] == program


def test_the_program_is_written_where_asked_and_fails_in_the_same_way(
    attnscope: Runner, files: Path
) -> None:
    done = attnscope(*FAULTY, "--script", "program.py")
    assert done.status == 1
    assert "wrote program.py" in done.err
    assert "import attnscope" not in done.out
    again = subprocess.run(
        [sys.executable, "program.py"], capture_output=True, text=True, cwd=files, check=False
    )
    assert again.returncode == 1, again.stderr
    assert "not equal, first at scores" in again.stdout
    assert "AssertionError" in again.stderr


def test_equal_sides_have_nothing_to_shrink(attnscope: Runner, files: Path) -> None:
    words = ("functions.py:by_hand", "functions.py:by_hand", "--no-matrix", "--shrink")
    done = attnscope("verify", *words, "--script", "program.py")
    assert done.status == 0
    assert "nothing to shrink" in done.err
    assert not (files / "program.py").exists()


# -- the example ---------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]


def test_the_port_of_llama_has_its_fault_named_in_a_process_of_its_own() -> None:
    code = "from attnscope.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "verify", "examples/port_llama.py:mine", "arch:llama"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "examples/port_llama.py:mine against arch:llama: not equal"
    assert "first at q of call 0" in lines[1]
    assert "rotary-pairing" in done.stdout
    assert "layers.{0–1}.attention.wq.weight" in done.stdout
    assert max(map(len, lines)) <= 100


def test_the_sound_port_of_llama_is_equal(attnscope: Runner) -> None:
    port = ROOT / "examples" / "port_llama.py"
    done = attnscope("verify", f"{port}:sound", "arch:llama", "--format", "json")
    assert done.status == 0, done.err
    result = read(done)
    assert result["equal"] is True
    assert {case["equal"] for case in result["cases"]} == {True}
