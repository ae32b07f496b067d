"""What is found in a library's code is put at a line of the author's own."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

import attnscope
from attnscope.calls.source import Source
from attnscope.checks.engine import run_rules
from attnscope.checks.placing import at_maker
from attnscope.checks.report import Report
from attnscope.checks.rules import RULES
from attnscope.checks.selecting import selected
from attnscope.checks.subject.subject import Subject
from tests.checks.marks import marked
from tests.checks.small import noise

INSTALLED = "/x/lib/site-packages/torch/nn/functional.py"
LAYER: dict[str, Any] = {"d_model": 16, "nhead": 2, "dim_feedforward": 8, "batch_first": True}


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(**LAYER)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layer(x)  # calls
        return made


def check_bare() -> Report:
    layer = nn.TransformerEncoderLayer(**LAYER).eval()
    given = noise(2, 5, 16)
    return attnscope.check(layer, given, expect={"causal": True}, select=["AS201"])  # asks


def leaking(model: nn.Module) -> Report:
    return attnscope.check(model.eval(), noise(2, 5, 16), expect={"causal": True}, select=["AS201"])


def test_an_authors_line_that_calls_a_library() -> None:
    (finding,) = leaking(Wrapped()).findings
    assert finding.source is not None
    assert (finding.source.file, finding.source.line) == (__file__, marked(__file__, "calls"))


def in_library() -> Report:
    """Return a report whose finding has a library's line: nobody's own code asked for it."""
    subject = Subject(nn.TransformerEncoderLayer(**LAYER).eval(), noise(2, 5, 16), {"causal": True})
    return run_rules(subject, selected(RULES, ["AS201"], []))


def test_a_librarys_own_model_is_found_where_it_is_made() -> None:
    maker = Source("model.py", 3, "<module>", "model = nn.TransformerEncoderLayer()")
    report = in_library()
    (before,) = report.findings
    assert before.source is not None
    (after,) = at_maker(report, maker).findings
    assert after.source == maker
    assert after.evidence["library_line"] == f"torch/nn/functional.py:{before.source.line}"


def test_a_librarys_own_model_is_found_where_python_code_asks_for_its_check() -> None:
    (finding,) = check_bare().findings
    assert finding.source is not None
    assert (finding.source.file, finding.source.line) == (__file__, marked(__file__, "asks"))
    assert finding.evidence["library_line"].startswith("torch/nn/functional.py:")


def test_lines_stay_where_nothing_is_the_authors() -> None:
    report = in_library()
    assert at_maker(report, None) == report
    assert at_maker(report, Source(INSTALLED, 1, "f")) == report
    own = leaking(Wrapped())
    assert at_maker(own, Source("model.py", 3, "<module>")) == own
