"""The adapter and the rule that CONTRIBUTING.md shows work as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import attnscope
from attnscope.capture.adapters import ADAPTERS, REBOUND
from attnscope.checks.engine import run_rules
from attnscope.checks.finding import SEVERITIES
from attnscope.checks.rule import Rule
from attnscope.checks.rules import RULES
from attnscope.checks.subject.subject import Subject
from attnscope.targets import importing_from, resolve

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(beginning: str) -> dict[str, Any]:
    """Run the block of the page that begins so, and return its names."""
    found = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    (code,) = (each for each in found if each.startswith(f'"""{beginning}'))
    names: dict[str, Any] = {}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)  # noqa: S102  the page's own code
    return names


def attend(q: Tensor, k: Tensor, v: Tensor, hide: Tensor | None = None) -> Tensor:
    """Return the context (batch, tokens, heads, dim), as a kernel would: in one step."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    visible = None if hide is None else ~hide
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible).transpose(1, 2)


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the adapter of the page in place, and a package for it."""
    names = block("`fastkernels.attend`")
    package = ModuleType("fastkernels")
    package.attend = attend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastkernels", package)
    made = (names["FastAttention"](),)
    monkeypatch.setattr("attnscope.capture.session.ADAPTERS", (*ADAPTERS, *made))
    monkeypatch.setattr("attnscope.capture.session.REBOUND", (*REBOUND, *made))


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("masked", [False, True])
def test_the_adapter_reads_its_kernel(masked: bool) -> None:  # noqa: FBT001  a case
    q, k, v = (torch.randn(2, length, 4, 8) for length in (5, 7, 7))
    hide = torch.rand(5, 7) < 0.3 if masked else None
    expected = attend(q, k, v, hide)

    trace = attnscope.trace(lambda: sys.modules["fastkernels"].attend(q, k, v, hide))
    assert torch.equal(trace.output, expected)
    (call,) = trace
    assert call.kind == "fastkernels"
    assert (call.heads, call.queries, call.keys) == (4, 5, 7)
    assert call.recipe.mask.hides == masked
    assert call.replay_error is not None
    assert call.replay_error < 1e-5


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Rule:
    """Put the probe of the page in place, and return its rule."""
    module = ModuleType("attnscope.checks.probes.turned_batch")
    vars(module).update(block("The samples of the batch"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    made: Rule = block("AS999")["RULE"]
    return made


@pytest.mark.parametrize("faulty", [True, False])
def test_the_rule_fires_on_its_bad_program_alone(
    rule: Rule,
    faulty: bool,  # noqa: FBT001  a case
    tmp_path: Path,
) -> None:
    file = tmp_path / "program.py"
    file.write_text(rule.bad if faulty else rule.good, encoding="utf-8")
    found = resolve(str(file))
    with importing_from(found.folder):
        report = run_rules(Subject(found.model, found.inputs, name=found.name), [rule])
    assert report.rules_run == (rule.code,)
    assert report.ok is not faulty
    for finding in report.findings:
        assert finding.evidence["moved"] > finding.evidence["noise"] > 0
        assert finding.source is not None
        assert "self.attention(x, x, x)" in finding.source.code


def test_the_rule_takes_no_code_or_name_that_is_taken(rule: Rule) -> None:
    assert rule.severity in SEVERITIES
    assert not {rule.code, rule.name} & {text for each in RULES for text in (each.code, each.name)}


def test_files_that_the_tables_and_steps_name_exist() -> None:
    """Names in the table of `checks/` are looked up there, paths from the root."""
    table = PAGE.split("\n## Inside `checks/`\n")[1].split("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    home = ROOT / "src" / "attnscope" / "checks"
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert named
    assert [name for name in named if not (home / name).exists()] == []
    there = {path.name for path in home.iterdir() if path.suffix == ".py" or path.is_dir()}
    told = {name.rstrip("/") for name in named} | {"__init__.py", "__pycache__"}
    assert sorted(there - told) == []
    paths = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./]+)`", PAGE)
    assert [path for path in paths if not (ROOT / path).exists()] == []
