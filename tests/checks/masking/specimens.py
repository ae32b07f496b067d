"""Programs as users write them, written to a file and checked, so that findings have lines."""

from __future__ import annotations

import importlib.util
import itertools
import textwrap
from pathlib import Path

import torch

import attnscope
from attnscope.checks.finding import Finding
from attnscope.checks.report import Report

OWN = ("AS202", "AS203", "AS204", "AS205", "AS207", "AS208", "AS211")
"""The rules about masks that look at one batch."""

HEAD = """
import math
import torch
from torch import nn
from torch.nn import functional as F
"""

_numbers = itertools.count()


def checked(folder: Path, program: str, select: tuple[str, ...] = OWN) -> Report:
    """Check a program that defines `model`, `inputs` and perhaps `expect`."""
    path = folder / f"specimen_{next(_numbers)}.py"
    path.write_text(HEAD + textwrap.dedent(program))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        spec.loader.exec_module(module)
    return attnscope.check(
        module.model, module.inputs, expect=getattr(module, "expect", None), select=select
    )


def the_finding(folder: Path, program: str) -> Finding:
    """Return the one finding of a program; its line is the one that is marked `# here`."""
    report = checked(folder, program)
    assert len(report.findings) == 1, [f"{f.code} {f.message}" for f in report.findings]
    finding = report.findings[0]
    lines = (HEAD + textwrap.dedent(program)).splitlines()
    marked = [at for at, line in enumerate(lines, 1) if line.endswith("# here")]
    assert finding.source is not None
    assert finding.source.line in marked, finding.source
    return finding


def codes(folder: Path, program: str) -> list[str]:
    """Return the codes of what is found, follow-on findings not included."""
    report = checked(folder, program)
    assert [each for each in report.rules_skipped if each.failed] == []
    return [finding.code for finding in report.findings]
