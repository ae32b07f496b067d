"""Findings in code that torch.fx or torch.export wrote are put where the author wrote it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import attnscope
from attnscope.calls.source import Source
from attnscope.checks.graphs import traced_line
from attnscope.checks.report import Report
from attnscope.checks.subject.subject import Subject
from tests.checks.marks import marked
from tests.checks.small import noise


class Sideways(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:  # begins
        scores = self.q(x) @ self.k(x).mT / 4
        weights = scores.softmax(1)  # sideways
        made: Tensor = weights @ self.v(x)
        return made


X = noise(3, 7, 16)


def line_found(report: Report) -> int:
    (finding,) = (each for each in report.findings if each.code == "AS101")
    assert finding.source is not None
    assert finding.source.file == __file__
    return finding.source.line


def test_an_exported_graph_is_found_at_the_line_of_its_operation() -> None:
    exported = torch.export.export(Sideways(), (X,)).module()
    assert line_found(attnscope.check(exported, X)) == marked(__file__, "sideways")


def test_a_traced_graph_is_found_at_the_forward_that_was_traced() -> None:
    traced = nn.Sequential(torch.fx.symbolic_trace(Sideways()))
    assert line_found(attnscope.check(traced, X)) == marked(__file__, "begins")


def test_other_lines_stay() -> None:
    subject = Subject(Sideways(), X)
    for line in (Source("<eval_with_key>.7", 3, "forward"), Source(__file__, 3, "f")):
        assert traced_line(subject, line) == line
