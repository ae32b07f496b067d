"""How the sweep over architectures judges what is told of one."""

from __future__ import annotations

import pytest

from benchmarks.quiet import judged
from benchmarks.upstream import PROVEN


@pytest.mark.parametrize(
    ("name", "codes", "state"),
    [
        ("bert", set(), "quiet"),
        ("bert", {"AS201"}, "told"),
        ("fsmt", {"AS201"}, "proven"),
        ("fsmt", {"AS201", "AS601"}, "told"),
        ("fsmt", {"AS601"}, "told"),
        ("fsmt", set(), "not told"),
    ],
)
def test_a_proven_fault_is_expected_and_nothing_else(
    name: str, codes: set[str], state: str
) -> None:
    assert judged(name, codes) == state


def test_proven_faults_are_of_architectures_that_there_are() -> None:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    from attnscope.targets.architectures import architectures

    assert set(PROVEN) <= set(architectures())
