"""pytest itself with the plugin, in a process of its own: what is collected, said and counted.

The rules are made by hand, in the tests' conftest.py; the engine is the real one.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONFTEST = """
import inspect
from attnscope.calls import Source
from attnscope.checks import rules
from attnscope.checks.rule import Rule, Skipped

TEXTS = dict(what="It is.", why="It does.", fix="Mend it.", proof="It moved.", bad="", good="")

def leaks(subject):
    if getattr(subject.run, "leaks", False):
        source = Source(__file__, 1, "leaks", "")
        if hasattr(subject.run, "line"):
            kind = type(subject.run)
            lines, first = inspect.getsourcelines(kind)
            source = Source(inspect.getsourcefile(kind), first + 1, "Commented", lines[1].strip())
        message = "later tokens move earlier outputs by 0.5"
        yield LEAK.found(message, {"moved": 0.5}, source=source)

def declared(subject):
    raise Skipped("which input is padding? declare expect padding")
    yield

def nothing(subject):
    yield from ()

LEAK = Rule("AS201", "future-leak", "error", check=leaks, **TEXTS)
PADDING = Rule("AS202", "padding-leak", "error", check=declared, **TEXTS)
EMPTY = Rule("AS203", "empty-row", "warning", check=nothing, **TEXTS)
rules.RULES = (LEAK, PADDING, EMPTY)
"""

MODEL = """
import pathlib
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, leaks=False):
        super().__init__()
        self.leaks = leaks
        self.layer = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.layer(x, x, x)[0]

inputs = torch.randn(2, 5, 16)
model = Net

def make():
    with pathlib.Path("built.txt").open("a") as log:
        log.write("built\\n")
    return Net().eval()

def leaking():
    return Net(leaks=True).eval()

class Commented(Net):  # attnscope: ignore[AS201] a prefix is read both ways
    line = 3

def commented():
    return Commented(leaks=True).eval()
"""

TESTS = """
import attnscope.testing
import pytest
from net import Net, commented, inputs, leaking, make

@attnscope.testing.battery(make, inputs=inputs)
def test_sound(rule):
    rule()

@attnscope.testing.battery(leaking, inputs=inputs)
def test_leaking(rule):
    rule()

@attnscope.testing.battery(
    leaking, inputs=inputs, expected_failures={"AS201": "mended in the next version"}
)
def test_known(rule):
    rule()

@attnscope.testing.battery(make, inputs=inputs, expected_failures={"future-leak": "was mended"})
def test_mended(rule):
    rule()

@attnscope.testing.battery("net.py", select=["AS201"])
def test_target(rule):
    rule()

@attnscope.testing.battery("net.py:leaking", inputs=lambda: (inputs,), select=["AS201"])
def test_leaking_target(rule):
    rule()

@attnscope.testing.battery("absent.py")
def test_absent(rule):
    rule()

@attnscope.testing.battery(make, inputs=inputs)
def test_forgotten(rule):
    pass

@attnscope.testing.battery(commented, inputs=inputs, select=["AS201"])
def test_commented(rule):
    rule()

class TestInAClass:
    @pytest.mark.parametrize("more", [1, 2])
    @attnscope.testing.battery(make, inputs=inputs, select=["AS203"])
    def test_with_others(self, more, tmp_path, rule):
        rule()

def test_fixture_sound(attnscope_check):
    assert attnscope_check(make, inputs).rules_run == ("AS201", "AS203")

def test_fixture_leaking(attnscope_check):
    attnscope_check(leaking, inputs)

def test_fixture_allowed(attnscope_check):
    attnscope_check(leaking, inputs, allow={"AS201": "a prefix"})

def test_fixture_ignored(attnscope_check):
    assert attnscope_check(leaking, inputs, ignore=["AS2"]).ok

def test_fixture_target(attnscope_check):
    assert attnscope_check("net.py:model").target == "net.py:model"
"""


@dataclass(frozen=True)
class Case:
    """What one test came to: passed, failed, error, skipped, xfailed; with what was said."""

    result: str
    said: str


def is_installed() -> bool:
    """Return whether pytest finds the plugin by itself."""
    found = importlib.metadata.entry_points(group="pytest11")
    return any(point.name == "attnscope" for point in found)


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, with the plugin."""
    plugin = () if is_installed() else ("-p", "pytest_attnscope")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", *plugin, *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )


def read(file: Path) -> dict[str, Case]:
    """Return what the tests of a JUnit report came to, by name."""
    cases = {}
    for case in ET.parse(file).iter("testcase"):  # noqa: S314  pytest wrote it a moment ago
        child = next((each for each in case if each.tag in {"failure", "error", "skipped"}), None)
        if child is None:
            cases[case.attrib["name"]] = Case("passed", "")
            continue
        result = {"failure": "failed"}.get(child.tag, child.tag)
        if child.attrib.get("type") == "pytest.xfail":
            result = "xfailed"
        said = f"{child.attrib.get('message', '')}\n{child.text or ''}"
        cases[case.attrib["name"]] = Case(result, said)
    return cases


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model and tests of it, which were run."""
    made = tmp_path_factory.mktemp("project")
    (made / "conftest.py").write_text(CONFTEST)
    (made / "net.py").write_text(MODEL)
    (made / "test_net.py").write_text(TESTS)
    (made / "pytest.ini").write_text("[pytest]\njunit_family = xunit2\n")
    return made


@pytest.fixture(scope="module")
def said(folder: Path) -> str:
    """Run the tests, and return what pytest printed."""
    done = run_pytest(folder, "--junitxml", "report.xml", "-rA")
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cases(folder: Path, said: str) -> Mapping[str, Case]:
    """Return what each test came to."""
    assert "short test summary" in said
    return read(folder / "report.xml")


LEAK, PADDING, EMPTY = "AS201-future-leak", "AS202-padding-leak", "AS203-empty-row"


@pytest.mark.parametrize(
    ("test", "result", "words"),
    [
        (f"test_sound[{LEAK}]", "passed", ""),
        (f"test_sound[{PADDING}]", "skipped", "which input is padding? declare expect padding"),
        (f"test_sound[{EMPTY}]", "passed", ""),
        (f"test_leaking[{LEAK}]", "failed", "later tokens move earlier outputs by 0.5"),
        (f"test_leaking[{EMPTY}]", "passed", ""),
        (f"test_known[{LEAK}]", "xfailed", "mended in the next version"),
        (f"test_known[{PADDING}]", "skipped", "which input is padding?"),
        (f"test_mended[{LEAK}]", "failed", "XPASS(strict)] was mended"),
        (f"test_target[{LEAK}]", "passed", ""),
        (f"test_leaking_target[{LEAK}]", "failed", "later tokens move"),
        (f"test_absent[{LEAK}]", "failed", "there is no file absent.py"),
        (f"test_absent[{PADDING}]", "skipped", "nothing was checked: TargetError"),
        (f"test_forgotten[{LEAK}]", "failed", "the test never calls rule()"),
        (f"test_forgotten[{PADDING}]", "failed", "the test never calls rule()"),
        (f"test_commented[{LEAK}]", "xfailed", "silenced by comment: a prefix is read both ways"),
        (f"test_with_others[{EMPTY}-1]", "passed", ""),
        (f"test_with_others[{EMPTY}-2]", "passed", ""),
        ("test_fixture_sound", "passed", ""),
        ("test_fixture_leaking", "failed", "AS201 future-leak"),
        ("test_fixture_allowed", "passed", ""),
        ("test_fixture_ignored", "failed", "no rule is left to be run"),
        ("test_fixture_target", "passed", ""),
    ],
)
def test_each_item_comes_to_what_it_should(
    cases: Mapping[str, Case], test: str, result: str, words: str
) -> None:
    assert cases[test].result == result
    assert words in cases[test].said


def test_there_is_one_item_a_rule_and_no_other(cases: Mapping[str, Case]) -> None:
    own = [name for name in cases if name.startswith("test_sound")]
    assert own == [f"test_sound[{name}]" for name in (LEAK, PADDING, EMPTY)]
    assert len(cases) == 28


def test_the_items_of_a_battery_share_one_check(folder: Path, cases: Mapping[str, Case]) -> None:
    assert cases
    built = (folder / "built.txt").read_text().splitlines()
    users = 4  # test_sound, test_mended, the class, and one fixture
    assert len(built) == users


def test_a_failure_shows_the_report_and_no_traceback_of_attnscope(said: str) -> None:
    _, _, rest = said.partition(f"_ test_leaking[{LEAK}] _")
    shown = rest.partition("\n____")[0]
    assert "AS201 future-leak" in shown
    assert "Mend it." in shown
    assert "testing/items.py" not in shown
    assert "def test_leaking" not in shown


def test_nothing_is_built_or_checked_while_tests_are_collected(folder: Path) -> None:
    before = (folder / "built.txt").read_text() if (folder / "built.txt").exists() else ""
    done = run_pytest(folder, "--collect-only", "-q", "-k", "test_sound")
    assert done.returncode == 0
    assert done.stdout.count("test_net.py::test_sound") == 3
    after = (folder / "built.txt").read_text() if (folder / "built.txt").exists() else ""
    assert before == after


def fresh(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


LOADED = "import sys; print(*sorted({'torch', 'pytest', 'rich'} & {*sys.modules}))"


def test_the_package_can_be_imported_without_pytest_and_torch() -> None:
    assert fresh(f"import attnscope.testing; {LOADED}").stdout == "\n"
    assert fresh(f"import attnscope.testing, pytest; {LOADED}").stdout.split()[0] == "pytest"


@pytest.mark.parametrize("call", ["battery(len)", "checked(len)"])
def test_without_pytest_it_says_what_to_install(call: str) -> None:
    done = fresh(
        "import sys; sys.modules['pytest'] = None\n"
        "import attnscope.testing as testing\n"
        "from attnscope.errors import MissingExtraError\n"
        f"try:\n    testing.{call}\nexcept MissingExtraError as error:\n    print(error)\n"
    )
    assert "the package pytest is not installed; install it with: pip install" in done.stdout
    assert "'attnscope[pytest]'" in done.stdout


def test_the_plugin_loads_neither_torch_nor_attnscope_by_itself() -> None:
    done = fresh(
        "import sys, pytest_attnscope; print(*sorted({'torch', 'attnscope'} & {*sys.modules}))"
    )
    assert (done.returncode, done.stdout) == (0, "\n")


def test_the_plugin_and_its_extra_are_declared_and_packaged() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, hatch = declared["project"], declared["tool"]["hatch"]["build"]
    assert project["entry-points"]["pytest11"] == {"attnscope": "pytest_attnscope"}
    assert [each.partition(">")[0] for each in project["optional-dependencies"]["pytest"]] == [
        "pytest"
    ]
    assert hatch["targets"]["wheel"]["packages"] == ["src/attnscope", "src/pytest_attnscope.py"]
