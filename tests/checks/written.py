"""Programs that are written into a file, as a user has them, and checked from there."""

from __future__ import annotations

import textwrap
from pathlib import Path

import torch

import attnscope
from attnscope.checks.finding import Finding
from attnscope.checks.report import Report
from attnscope.targets import importing_from, resolve

HEAD = """\
import math

import torch
from torch import nn
from torch.nn import functional as F

"""


def reported(folder: Path, program: str, *select: str) -> Report:
    """Check a program with some rules, none of which may fail by itself."""
    file = folder / "program.py"
    file.write_text(HEAD + textwrap.dedent(program), encoding="utf-8")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = resolve(str(file))
    with importing_from(found.folder):
        report = attnscope.check(found.model, found.inputs, expect=found.expect, select=select)
    assert not [each for each in report.rules_skipped if each.failed]
    return report


def found(folder: Path, program: str, *select: str) -> list[tuple[str, str, bool]]:
    """Return code, severity, and whether the line ends with `# here`, of each finding."""
    return [
        (each.code, each.severity, _here(each))
        for each in reported(folder, program, *select).findings
    ]


def only(folder: Path, program: str, *select: str) -> Finding:
    """Return the only finding."""
    findings = reported(folder, program, *select).findings
    assert len(findings) == 1, [each.message for each in findings]
    return findings[0]


def _here(finding: Finding) -> bool:
    return finding.source is not None and finding.source.code.endswith("# here")
