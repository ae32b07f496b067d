"""A check of the zoo: faulty programs are named at a right line, sound ones stay quiet.

`make zoo` runs all programs; here one in four is run, chosen by its name, so that a new program
doesn't change the choice. What is not right yet is named.
"""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path

import pytest

from tests.zoo.judging import Truth, Verdict, judge, reached, truth_of

PROGRAMS = Path(__file__).parent / "programs"
ALL = sorted(file for file in PROGRAMS.rglob("*.py"))
CHOSEN = [file for file in ALL if zlib.crc32(file.name.encode()) % 4 == 0]

OPEN = {
    "real/transformers_39408_window_off_by_one.py": "points at the mask's definition",
    "unseen_fifth/faulty/din_ctr.py": "points one line after",
    "unseen_fifth/faulty/gqa_fused_chunk3.py": "points one line after",
    "unseen_fifth/faulty/intent_pos_not_added.py": "points at the module",
    "unseen_fifth/faulty/lidar_rope_axis.py": "points at the use of the helper, not into it",
    "unseen_fifth/faulty/pointcloud_shared_qk.py": "shared q and k may be meant",
    "unseen_fifth/faulty/road_graph_isolated.py": "the empty row looks like padding",
    "unseen_fifth/faulty/saint_row_heads.py": "points into the head",
}
"""Programs that are not judged right yet, with what is wrong."""


def _case(file: Path) -> object:
    name = file.relative_to(PROGRAMS).as_posix()
    marks = [pytest.mark.xfail(reason=OPEN[name], strict=True)] if name in OPEN else []
    return pytest.param(file, id=name, marks=marks)


@pytest.mark.parametrize("file", [_case(file) for file in CHOSEN])
def test_a_program_is_called_what_it_is(file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a program's own code warns of is not at stake
        verdict = judge(file)
    assert verdict.right, verdict.line()


def test_there_are_enough_programs_of_both_kinds() -> None:
    truths = [truth_of(file) for file in ALL]
    assert sum(truth.faulty for truth in truths) >= 150
    assert sum(not truth.faulty for truth in truths) >= 100


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ((("AS201", "error", 7),), True),
        ((("AS201", "error", 8),), False),  # another line
        ((("AS202", "error", 7),), False),  # another code
        ((), False),
        ((("AS201", "error", 7), ("AS301", "warning", 3)), False),  # and an alarm beside
        ((("AS201", "error", 7), ("AS301", "note", 3)), True),
    ],
)
def test_a_verdict_on_a_faulty_program(
    found: tuple[tuple[str, str, int], ...],
    verdict: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    truth = Truth(frozenset({"AS201"}), frozenset({7}), frozenset())
    assert Verdict(Path("a.py"), truth, found).right is verdict


def test_one_alarm_on_a_sound_program_is_too_much() -> None:
    sound = Truth(frozenset(), frozenset(), frozenset())
    quiet = Verdict(Path("a.py"), sound, (("AS501", "note", 1),))
    assert reached([quiet])
    assert not reached([quiet, Verdict(Path("b.py"), sound, (("AS501", "warning", 1),))])
