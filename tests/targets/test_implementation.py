"""The two sides of a comparison: functions told from factories, one import, inputs in order."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnscope import reference
from attnscope.errors import TargetError
from attnscope.targets import Wishes, both

SIDES = """
import functools
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q = nn.Linear(8, 8)
    def forward(self, x):
        return self.to_q(x)

class Runs:
    def __call__(self, q, k, v):
        return v

class Needs(Net):
    def __init__(self, width):
        super().__init__()

def attention(q, k, v, scale=None):
    return v

def with_defaults(query=None, key=None, value=None):
    return value

def run(x, mask):
    return x

def factory():
    return Net()

def makes_function():
    return attention

def makes_number():
    return 3

def fails():
    raise RuntimeError("two\\nlines")

lone = Net()
pair = Net(), Net()
bound = functools.partial(attention, scale=0.5)
callable_object = Runs()
number = 3
"""


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sides.py").write_text(SIDES)
    return tmp_path


def side(words: str) -> Any:
    return both(words, "attnscope.reference").candidate.run


@pytest.mark.parametrize(
    "name", ["attention", "with_defaults", "run", "bound", "callable_object", "makes_function"]
)
def test_what_takes_tensors_is_run_and_never_called_for_a_model(name: str) -> None:
    run = side(f"sides.py:{name}")
    assert callable(run)
    assert not isinstance(run, nn.Module)


@pytest.mark.parametrize("name", ["factory", "Net", "lone"])
def test_factories_classes_and_instances_give_a_module(name: str) -> None:
    assert type(side(f"sides.py:{name}")).__name__ == "Net"


def test_a_builtin_without_a_signature_is_a_function() -> None:
    name = "torch.nn.functional:scaled_dot_product_attention"
    assert side(name) is F.scaled_dot_product_attention


def test_the_definition_has_a_name_of_its_own() -> None:
    found = both("attnscope.reference:attention", "attnscope.reference")
    assert found.candidate.run is found.reference.run is reference.attention
    assert (found.candidate.name, found.reference.name) == (
        "attnscope.reference:attention",
        "attnscope.reference",
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("number", "it is of type int"),
        ("pair", "it is of type tuple"),
        ("makes_number", "it takes no arguments and returned int"),
        ("Needs", "it needs the arguments width"),
        ("Runs", "the class Runs is no torch.nn.Module"),
        ("fails", "RuntimeError: two lines at sides.py:"),
        ("nett", "there is no 'nett'"),
    ],
)
def test_what_can_not_be_run_is_refused(name: str, found: str) -> None:
    with pytest.raises(TargetError) as caught:
        both(f"sides.py:{name}", "attnscope.reference")
    assert found in str(caught.value)


def test_a_missing_file_is_told_before_the_other_side_is_built() -> None:
    Path("slow.py").write_text("raise RuntimeError('built')\n")
    with pytest.raises(TargetError, match=r"there is no file absent\.py"):
        both("absent.py:x", "slow.py")


# -- two files -----------------------------------------------------------------------------------


def written(path: str, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


NAMED = "from helper import NAME\nfrom torch import nn\nmodel = nn.Identity()\nmodel.name = NAME\n"


def test_two_files_of_one_name_have_helpers_of_their_own() -> None:
    for folder in ("a", "b"):
        written(f"{folder}/model.py", NAMED)
        written(f"{folder}/helper.py", f"NAME = {folder!r}\n")
    known = dict(sys.modules)
    found = both("a/model.py", "b/model.py", Wishes(inputs="sides.py:pair"))
    assert [found.candidate.run.name, found.reference.run.name] == ["a", "b"]  # type: ignore[attr-defined]
    assert "helper" not in set(sys.modules) - set(known)


def test_two_names_of_one_file_come_from_one_import() -> None:
    text = "from torch import nn\ntheirs = nn.Linear(2, 2)\nmine = nn.Sequential(theirs)\n"
    written("one.py", text)
    found = both("one.py:mine", "one.py:theirs", Wishes(inputs="sides.py:pair"))
    assert found.candidate.run[0] is found.reference.run  # type: ignore[index]


def test_files_of_one_folder_share_what_both_import() -> None:
    written("shared.py", "from torch import nn\noriginal = nn.Linear(2, 2)\n")
    written("mine.py", "from shared import original\nmodel = original\n")
    written("theirs.py", "from shared import original\nmodel = original\n")
    found = both("mine.py", "theirs.py", Wishes(inputs="sides.py:pair"))
    assert found.candidate.run is found.reference.run
    assert "shared" not in sys.modules


def test_both_import_from_their_own_folders_while_they_run() -> None:
    lazy = "from torch import nn\nclass Lazy(nn.Module):\n    def forward(self, x):\n        "
    for folder in ("a", "b"):
        written(f"{folder}/lazy_{folder}.py", f"NAME = {folder!r}\n")
        code = f"import lazy_{folder}\n        return lazy_{folder}.NAME\nmodel = Lazy()\n"
        written(f"{folder}/model.py", lazy + code)
    found = both("a/model.py", "b/model.py", Wishes(inputs="sides.py:pair"))
    with found.importing():
        assert (found.candidate.run(0), found.reference.run(0)) == ("a", "b")


# -- inputs and expect ---------------------------------------------------------------------------

DECLARES = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q = nn.Linear(8, 8)
    def forward(self, x):
        return self.to_q(x)
model = Net
"""


def declares(name: str, size: int | None, expect: str = "") -> str:
    inputs = f"inputs = torch.full((1, 4, 8), {size}.0)\n" if size is not None else ""
    return written(name, f"{DECLARES}{inputs}{expect}\n")


def value(found: Any) -> float:
    given = found.inputs["x"] if isinstance(found.inputs, dict) else found.inputs[0]
    return float(given.flatten()[0])


@pytest.mark.parametrize(
    ("ours", "theirs", "given", "wanted"),
    [(1, 2, 3, 3.0), (1, 2, None, 2.0), (1, None, None, 1.0)],
    ids=["given", "the reference's", "the candidate's"],
)
def test_inputs_are_given_else_the_references_else_the_candidates(
    ours: int, theirs: int | None, given: int | None, wanted: float
) -> None:
    declares("mine.py", ours)
    declares("theirs.py", theirs)
    words = f"{declares('given.py', given)}:inputs" if given else None
    found = both("mine.py", "theirs.py", Wishes(inputs=words))
    assert value(found) == wanted
    assert found.declared


def test_inputs_are_made_for_the_reference_where_nobody_wrote_any() -> None:
    declares("mine.py", None)
    found = both("mine.py", "sides.py:Net")
    assert not found.declared
    assert isinstance(found.inputs, dict)
    assert found.inputs["x"].shape[-1] == 8


def test_inputs_are_made_for_the_candidate_where_the_reference_does_not_say() -> None:
    unknown = (
        "from torch import nn\nclass Odd(nn.Module):\n    def forward(self, odd): return odd\n"
    )
    written("odd.py", unknown)
    found = both("sides.py:Net", "odd.py:Odd")
    assert isinstance(found.inputs, dict)
    assert set(found.inputs) == {"x"}
    with pytest.raises(TargetError, match="Odd"):
        both("odd.py:Odd", "odd.py:Odd")


def test_two_functions_are_left_without_inputs() -> None:
    found = both("sides.py:attention", "attnscope.reference")
    assert found.inputs is None
    assert not found.declared


def test_inputs_of_a_functions_file_are_left_aside_for_a_module_that_they_do_not_fit() -> None:
    spec = (
        "import torch\ninputs = (torch.zeros(1, 2, 3, 4),) * 3\ndef attention(q, k, v): return v\n"
    )
    written("spec.py", spec)
    declares("mine.py", 1)
    assert value(both("mine.py", "spec.py:attention")) == 1.0
    assert both("sides.py:attention", "spec.py:attention").inputs is not None


def test_arrays_become_tensors_of_the_modules_type() -> None:
    written("arrays.py", "import numpy as np\ninputs = {'x': np.ones((1, 4, 8)), 'n': 3}\n")
    found = both("sides.py:Net", "sides.py:Net", Wishes(inputs="arrays.py:inputs"))
    assert isinstance(found.inputs, dict)
    assert found.inputs["x"].dtype == torch.float32
    assert found.inputs["n"] == 3
    alone = both("sides.py:attention", "sides.py:run", Wishes(inputs="arrays.py:inputs"))
    assert isinstance(alone.inputs, dict)
    assert alone.inputs["x"].dtype == torch.float64
    assert np.allclose(alone.inputs["x"].numpy(), 1.0)


def test_expect_is_merged_and_options_win() -> None:
    declares("mine.py", 1, 'expect = {"causal": False, "window": 3, "scale": 1.0}')
    declares("theirs.py", 1, 'expect = {"causal": True, "scale": 2.0}')
    found = both("mine.py", "theirs.py", Wishes(expect=("scale=3.0",)))
    assert found.expect == {"causal": True, "window": 3, "scale": 3.0}


@pytest.mark.parametrize(
    ("wishes", "found"),
    [
        (Wishes(texts=("hello",)), "neither side has a tokenizer"),
        (Wishes(attention="eager"), "neither side is one"),
        (Wishes(texts=("hello",), inputs="sides.py:pair"), "both --inputs and --text"),
        (Wishes(inputs="sides.py"), "write --inputs file.py:name"),
        (Wishes(expect=("casual=true",)), "did you mean causal?"),
    ],
    ids=["text", "attention", "text and inputs", "inputs without a name", "expect"],
)
def test_wishes_that_do_not_fit_are_refused(wishes: Wishes, found: str) -> None:
    with pytest.raises(TargetError) as caught:
        both("sides.py:Net", "sides.py:attention", wishes)
    assert found in str(caught.value)


def test_an_architecture_brings_its_inputs_and_its_kernel() -> None:
    found = both("arch:llama", "arch:llama", Wishes(attention="eager"))
    config: Any = found.reference.run.config  # type: ignore[attr-defined]
    assert config._attn_implementation == "eager"
    assert isinstance(found.inputs, dict)
    assert "input_ids" in found.inputs
    assert not found.declared
