"""`# attnscope: ignore[...]`: what it says, and which lines it speaks of."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from attnscope.checks import rules
from attnscope.checks.silencing.comments import Comment, comments_of
from tests.checks.reports import RULES

IGNORE = "# attnscope: ignore[AS201] it is meant"


@pytest.fixture(autouse=True)
def _own_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES", RULES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.py"


def read(file: Path, text: str) -> tuple[Comment, ...]:
    file.write_text(textwrap.dedent(text))
    return comments_of(str(file))


def only(file: Path, text: str) -> Comment:
    (comment,) = read(file, text)
    return comment


# -- what it says --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comment", "codes", "reason"),
    [
        ("# attnscope: ignore[AS201] it is meant", ("AS201",), "it is meant"),
        ("# attnscope: ignore[AS201, AS102] both", ("AS201", "AS102"), "both"),
        ("#attnscope:ignore[as201] - so it is", ("AS201",), "so it is"),
        ("# Attnscope: Ignore [future-leak]: a prefix", ("AS201",), "a prefix"),
        ("# noqa: E501  # attnscope: ignore[AS201] long  # more", ("AS201",), "long"),
        ("# attnscope: ignore[AS201] see #12", ("AS201",), "see #12"),
        ("# attnscope: ignore[AS201, AS201] twice", ("AS201",), "twice"),
    ],
)
def test_codes_and_reason(file: Path, comment: str, codes: tuple[str, ...], reason: str) -> None:
    found = only(file, f"x = 1  {comment}\n")
    assert (found.codes, found.reason, found.problems) == (codes, reason, ())


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("# attnscope: ignore", "it names no rule; write # attnscope: ignore[AS201] and the"),
        ("# attnscope: ignore all of it", "it names no rule"),
        ("# attnscope: ignore[] because", "it names no rule"),
        ("# attnscope: ignore[AS201]", "it gives no reason; write"),
        ("# attnscope: ignore[AS201] --", "it gives no reason"),
        ("# attnscope: ignore[AS210] so", "there is no rule 'AS210'; did you mean AS2"),
        ("# attnscope: ignore[AS2] so", "there is no rule 'AS2'"),
        ("# attnscope: ignore[futur-leak] so", "did you mean future-leak"),
    ],
)
def test_a_comment_that_cannot_be_used_says_why(file: Path, comment: str, problem: str) -> None:
    found = only(file, f"x = 1  {comment}\n")
    assert not found.codes
    assert problem in found.problems[0]


def test_a_code_that_there_is_not_does_not_spoil_the_others(file: Path) -> None:
    found = only(file, "x = 1  # attnscope: ignore[AS201, AS999] so\n")
    assert found.codes == ("AS201",)
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    "text",
    [
        "x = '# attnscope: ignore[AS201] in a text'\n",
        '"""\n# attnscope: ignore[AS201] in a docstring\n"""\n',
        "x = 1  # attnscope: ignores nothing here\n",
        "x = 1  # see attnscope\n",
        "x = (  # attnscope: ignore[AS201] in a file that is no Python\n",
        "",
    ],
    ids=["text", "docstring", "other-word", "other-comment", "broken", "empty"],
)
def test_what_is_no_such_comment(file: Path, text: str) -> None:
    assert read(file, text) == ()


def test_a_file_that_is_not_there_has_none(file: Path) -> None:
    assert comments_of(str(file)) == ()


def test_a_file_that_changed_is_read_again(file: Path) -> None:
    assert read(file, f"x = 1  {IGNORE}\n")
    assert read(file, "x = 1  # attnscope is not asked\n") == ()


# -- which lines ---------------------------------------------------------------------------------

LINES = {
    "one line": (f"x = 1  {IGNORE}\ny = 2\n", (1, 1)),
    "first of several": (f"x = f(  {IGNORE}\n    1,\n)\ny = 2\n", (1, 3)),
    "inside of several": (f"x = f(\n    1,  {IGNORE}\n    2,\n)\n", (1, 4)),
    "alone inside of several": (f"x = f(\n    {IGNORE}\n    2,\n)\n", (1, 4)),
    "last of several": (f"y = 2\nx = f(\n    1,\n)  {IGNORE}\n", (2, 4)),
    "after a text of several lines": (f'x = """a\nb"""  {IGNORE}\n', (1, 2)),
    "after a continued line": (f"x = 1 + \\\n    2  {IGNORE}\n", (1, 2)),
    "without an end of line": (f"x = 1  {IGNORE}", (1, 1)),
    "line before": (f"y = 1\n{IGNORE}\nx = f(\n    1)\nz = 3\n", (3, 4)),
    "lines before": (f"{IGNORE}\n# more words\nx = 1\n", (3, 3)),
    "line before, indented": (f"if a:\n    {IGNORE}\n    x = 1\n    y = 2\n", (3, 3)),
    "head of an if": (f"if a:  {IGNORE}\n    x = 1\n", (1, 1)),
    "before an if": (f"{IGNORE}\nif a:\n    x = 1\n", (2, 2)),
    "head of a function": (f"def f():  {IGNORE}\n    x = 1\n\n    y = 2\n\n\nz = 3\n", (1, 4)),
    "before a function": (f"{IGNORE}\ndef f():\n    x = 1\nz = 3\n", (2, 3)),
    "head of several lines": (f"def f(\n    a,  {IGNORE}\n):\n    x = 1\nz = 3\n", (1, 4)),
    "asynchronous": (f"async def f():  {IGNORE}\n    x = 1\nz = 3\n", (1, 2)),
    "head of a class": (
        f"class A:  {IGNORE}\n    def f(self):\n        x = 1\n\n    def g(self): ...\n\n\nz = 3\n",
        (1, 5),
    ),
    "method alone": (
        f"class A:\n    def f(self):  {IGNORE}\n        x = 1\n\n    def g(self): ...\n",
        (2, 3),
    ),
    "function in one line": (f"class A:\n    def f(self): return 1  {IGNORE}\nx = 3\n", (2, 2)),
    "decorator": (f"@a  {IGNORE}\n@b\ndef f():\n    x = 1\nz = 3\n", (1, 4)),
    "before a decorator": (f"{IGNORE}\n@a\ndef f():\n    x = 1\nz = 3\n", (2, 4)),
    "between decorator and head": (f"@a\n{IGNORE}\ndef f():\n    x = 1\nz = 3\n", (1, 4)),
    "first line of a body": (f"def f():\n    {IGNORE}\n    x = 1\n    y = 2\n", (3, 3)),
    "body that ends with a comment": (f"def f():  {IGNORE}\n    x = 1\n    # end\nz = 3\n", (1, 2)),
}


@pytest.mark.parametrize("case", LINES)
def test_the_lines_that_a_comment_speaks_of(file: Path, case: str) -> None:
    text, lines = LINES[case]
    found = only(file, text)
    assert not found.problems
    assert (found.first, found.last) == lines


@pytest.mark.parametrize("text", [f"x = 1\n{IGNORE}\n\ny = 2\n", f"x = 1\n{IGNORE}\n"])
def test_a_comment_alone_needs_a_statement_on_the_next_line(file: Path, text: str) -> None:
    found = only(file, text)
    assert found.problems == ("no statement follows it",)
    assert not found.codes


def test_several_comments_may_stand_before_a_statement(file: Path) -> None:
    other = IGNORE.replace("AS201", "AS102")
    found = read(file, f"{IGNORE}\n{other}\nx = 1\n")
    assert [(each.codes, each.first) for each in found] == [(("AS201",), 3), (("AS102",), 3)]
