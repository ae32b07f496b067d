"""Importing a user's file: its own line in every error, and nothing left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from attnscope.errors import TargetError
from attnscope.targets import Wishes, resolve

MODEL = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q = nn.Linear(8, 8)
    def forward(self, x):
        return self.to_q(x)
model = Net()
"""


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "found", "line"),
    [
        ("import torch\nx = (\n", "SyntaxError", 2),
        ("import torch\n\nraise ValueError('wrong\\nsize')\n", "ValueError: wrong size", 3),
        ("def f():\n    return 1 / 0\n\nf()\n", "ZeroDivisionError", 2),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError", 1),
        ("import sys\nsys.exit(3)\n", "ends the program", 2),
    ],
    ids=["syntax", "raise", "nested", "import", "exit"],
)
def test_a_failing_import_names_the_files_own_line(text: str, found: str, line: int) -> None:
    path = written(Path("broken.py"), text)
    modules, paths = set(sys.modules), list(sys.path)
    with pytest.raises(TargetError) as caught:
        resolve(str(path))
    message = str(caught.value)
    assert found in message
    assert f"broken.py:{line}" in message
    assert "\n" not in message
    assert sys.path == paths
    assert {name for name in set(sys.modules) - modules if "broken" in name} == set()


def test_a_failing_sibling_is_named_and_forgotten() -> None:
    written(Path("sibling_a.py"), "x = 1\n\ny = undefined\n")
    with pytest.raises(TargetError, match=r"NameError.* at sibling_a\.py:3"):
        resolve(str(written(Path("net.py"), "import sibling_a\n" + MODEL)))
    assert "sibling_a" not in sys.modules


def test_two_targets_with_siblings_of_one_name_never_meet() -> None:
    for folder, width in (("first", 4), ("second", 6)):
        written(Path(folder, "sizes_here.py"), f"WIDTH = {width}\n")
        text = MODEL.replace("8, 8", "WIDTH, WIDTH")
        written(Path(folder, "net.py"), "from sizes_here import WIDTH\n" + text)
    first, second = resolve("first/net.py"), resolve("second/net.py")
    assert (first.args or tuple(first.kwargs.values()))[0].shape[-1] == 4
    assert (second.args or tuple(second.kwargs.values()))[0].shape[-1] == 6
    assert type(first.model).__module__ != type(second.model).__module__
    assert "sizes_here" not in sys.modules


def test_a_file_in_a_package_may_import_relatively() -> None:
    written(Path("pack/__init__.py"), "")
    written(Path("pack/sub/__init__.py"), "")
    written(Path("pack/widths.py"), "WIDTH = 8\n")
    path = written(Path("pack/sub/net.py"), "from ..widths import WIDTH\n" + MODEL)
    assert type(resolve(f"{path}:model").model).__name__ == "Net"
    assert "pack" not in sys.modules


def test_a_module_of_the_working_directory_is_found() -> None:
    written(Path("net_of_mine.py"), MODEL)
    assert type(resolve("net_of_mine:Net").model).__name__ == "Net"


def test_a_module_that_raises_names_its_line() -> None:
    written(Path("net_that_raises.py"), "import torch\nraise OSError('no')\n")
    with pytest.raises(TargetError, match=r"OSError: no at net_that_raises\.py:2"):
        resolve("net_that_raises:model")
    assert "net_that_raises" not in sys.modules


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nett.py", "did you mean net.py?"),
        ("missing/net.py:model", "there is no file missing/net.py"),
        ("net.py:", "nothing stands after the colon"),
        ("net.py:Nett", "did you mean Net?"),
        ("net.py:zzz", "it defines: Net, model"),
        ("net.txt", "not a Python file"),
        ("nowhere", "a TARGET is path/file.py:name"),
        ("no.such.module:Net", "no module named no"),
        ("torch:no_such_name", "there is no 'no_such_name'"),
        ("1bad:Net", "is no file and no module"),
        ("sample:minilmm", "did you mean sample:minilm?"),
        ("folder", "it has no config.json"),
        ("empty.py", "defines no `model`"),
        ("other.py", "name one of its own: other.py:Net"),
        ("net.py:number", "it is of type int"),
        ("net.py:Plain", "no torch.nn.Module"),
        ("net.py:needs", "it needs the arguments width, heads"),
        ("net.py:needs", "from Python: attnscope.check(needs, inputs)"),
        ("net.py:wrong", "it returned int"),
        ("net.py:raises", "KeyError: 'size' at net.py:15"),
    ],
)
def test_a_wrong_target_is_explained(target: str, said: str) -> None:
    extra = (
        "number = 3\nclass Plain: pass\ndef needs(width, heads): pass\ndef wrong(): return 3\n"
        "def raises():\n    return {}['size']\n"
    )
    written(Path("net.py"), MODEL + extra)
    written(Path("net.txt"), "")
    written(Path("empty.py"), "")
    written(Path("other.py"), MODEL.replace("model = Net()", ""))
    written(Path("folder/readme"), "")
    with pytest.raises(TargetError) as caught:
        resolve(target)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[1]", "of type list"),
        ("3", "of type int"),
        ("()", "an empty tuple"),
        ("{1: 2}", "the key 1"),
        ("lambda a: a", "needs the arguments a"),
        ("lambda: 1 / 0", "ZeroDivisionError"),
        ("{'y': torch.ones(2, 3, 8)}", "its forward takes (x)"),
        ("(torch.ones(1), torch.ones(1))", "its forward takes (x)"),
    ],
)
def test_wrong_inputs_are_explained(value: str, said: str) -> None:
    written(Path("net.py"), MODEL)
    written(Path("given.py"), f"import torch\nvalue = {value}\n")
    with pytest.raises(TargetError) as caught:
        resolve("net.py", Wishes(inputs="given.py:value"))
    assert said in str(caught.value)


@pytest.mark.parametrize("value", ["torch.ones(2, 3, 8)", "lambda: (torch.ones(2, 3, 8),)"])
def test_inputs_of_the_file_are_used(value: str) -> None:
    written(
        Path("net.py"), f"{MODEL}\nimport torch\ninputs = {value}\nexpect = {{'causal': True}}\n"
    )
    target = resolve("net.py", Wishes(expect=("scale=0.5",)))
    assert target.args[0].shape == (2, 3, 8)
    assert target.expect == {"causal": True, "scale": 0.5}


def test_texts_need_a_tokenizer() -> None:
    written(Path("net.py"), MODEL)
    with pytest.raises(TargetError, match="only checkpoints and samples"):
        resolve("net.py", Wishes(texts=("hello",)))
    with pytest.raises(TargetError, match="--attention chooses"):
        resolve("net.py", Wishes(attention="eager"))


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("from torch import nn\nmodel = None\nmodel = nn.Linear(2, 2)\n", "", 3),
        ("from torch import nn\n\n\ndef built():\n    return nn.Linear(2, 2)\n", "built", 5),
        ("from torch import nn\nwith open(__file__):\n    net = nn.Linear(2, 2)\n", "net", 2),
    ],
)
def test_the_line_that_makes_the_model_is_known(text: str, name: str, line: int) -> None:
    Path("made.py").write_text(text + "inputs = (__import__('torch').ones(1, 2),)\n")
    maker = resolve(f"made.py:{name}" if name else "made.py", Wishes()).maker
    assert maker is not None
    assert (Path(maker.file).name, maker.line) == ("made.py", line)


def test_an_edit_of_the_same_length_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for width in (8, 9, 8):
        path = written(Path("edited.py"), MODEL.replace("8", str(width)))
        weight = resolve(str(path)).model.get_parameter("to_q.weight")
        assert len(weight) == width
    assert not Path("__pycache__").exists()
