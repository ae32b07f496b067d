"""`[tool.attnscope]`: where it is found, what it says, and how a mistake in it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnscope.checks import rules
from attnscope.checks.silencing import Settings, read_settings
from attnscope.errors import InputError
from tests.checks.reports import RULES


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rules, "RULES", RULES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(text)
    return file


def read(folder: Path, text: str) -> Settings:
    write(folder, text)
    return read_settings(folder)


# -- where ---------------------------------------------------------------------------------------


def test_the_nearest_file_that_speaks_of_attnscope_counts(here: Path) -> None:
    write(here, '[tool.attnscope]\nselect = ["AS201"]\n')
    write(here / "a", '[tool.other]\nselect = ["X"]\n')
    inner = here / "a" / "b"
    inner.mkdir()
    (inner / "model.py").touch()
    assert read_settings(inner / "model.py").select == ("AS201",)
    write(inner, '[tool.attnscope]\nselect = ["AS102"]\n')
    assert read_settings(inner / "model.py").select == ("AS102",)
    assert read_settings(inner).select == ("AS102",)


def test_without_one_nothing_is_asked(here: Path) -> None:
    assert read_settings(here) == Settings()
    assert read(here, "[tool.attnscope]\n") == Settings()


# -- what ----------------------------------------------------------------------------------------


def test_rules_are_named_by_code_beginning_or_name(here: Path) -> None:
    found = read(here, '[tool.attnscope]\nselect = ["AS4", "future-leak", "as102"]\n')
    assert found.select == ("AS102", "AS201", "AS401", "AS404")


def test_a_list_ignores_without_reasons(here: Path) -> None:
    found = read(here, '[tool.attnscope]\nignore = ["AS4"]\n')
    assert found.ignore == {
        "AS401": "ignored by pyproject.toml",
        "AS404": "ignored by pyproject.toml",
    }


def test_a_table_ignores_with_reasons_the_own_before_that_of_the_family(here: Path) -> None:
    text = '[tool.attnscope.ignore]\nsink-head = "as usual"\nAS4 = "heads are pruned"\n'
    assert read(here, text).ignore == {
        "AS401": "ignored by pyproject.toml: heads are pruned",
        "AS404": "ignored by pyproject.toml: as usual",
    }


def test_files_are_ignored_by_pattern(here: Path) -> None:
    text = """
    [tool.attnscope.per-file-ignores]
    "models/*.py" = { AS201 = "published so" }
    "old_*.py" = ["AS4"]
    """
    models, old = read(here, text).files
    assert models.reasons == {"AS201": "published so"}
    assert old.reasons == {"AS401": "", "AS404": ""}
    assert models.covers(str(here / "models" / "deep" / "a.py"))
    assert models.covers("models/a.py")
    assert not models.covers(str(here / "a.py"))
    assert not models.covers(str(here.parent / "models" / "a.py"))
    assert old.covers(str(here / "any" / "old_one.py"))
    assert not old.covers(str(here / "any" / "new.py"))


def test_a_baseline_lies_beside_the_file_that_names_it(here: Path) -> None:
    found = read(here / "a", '[tool.attnscope]\nbaseline = "known.json"\n')
    assert found.baseline == here / "a" / "known.json"


# -- a command line over it ----------------------------------------------------------------------


def test_a_selection_takes_the_place_of_that_of_the_project(here: Path) -> None:
    found = read(here, '[tool.attnscope]\nselect = ["AS1"]\nignore = ["AS4"]\n')
    assert found.with_words([], []) == found
    assert found.with_words(["AS2"], []).select == ("AS201", "AS202", "AS203")


def test_what_is_ignored_on_the_command_line_is_added(here: Path) -> None:
    found = read(here, '[tool.attnscope]\nignore = ["AS404"]\n').with_words([], ["padding-leak"])
    assert found.ignore == {"AS404": "ignored by pyproject.toml", "AS202": "ignored by --ignore"}


def test_a_rule_that_is_selected_whole_runs_though_the_project_ignores_it(here: Path) -> None:
    found = read(here, '[tool.attnscope]\nignore = ["AS4"]\n')
    assert set(found.with_words(["AS401"], []).ignore) == {"AS404"}
    assert set(found.with_words(["dead-head"], []).ignore) == {"AS404"}
    assert set(found.with_words(["AS4"], []).ignore) == {"AS401", "AS404"}
    assert set(found.with_words(["AS401"], ["AS401"]).ignore) == {"AS401", "AS404"}


# -- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[tool.attnscope]\nselects = ["AS201"]\n', "no key 'selects'; did you mean select?"),
        ("[tool.attnscope]\nper_file_ignore = {}\n", "did you mean per-file-ignores?"),
        ("[tool.attnscope]\nzzz = 1\n", "use select, ignore, baseline, per-file-ignores"),
        ('[tool.attnscope]\nselect = ["AS210"]\n', "there is no rule 'AS210'"),
        ('[tool.attnscope]\nselect = "AS201"\n', "select is 'AS201'; give a list of rules"),
        ("[tool.attnscope]\nignore = [201]\n", "ignore is [201]; give a list of rules"),
        ("[tool.attnscope.ignore]\nAS201 = true\n", "ignore.AS201 is True; give the reason"),
        ('[tool.attnscope.ignore]\nAS999 = "x"\n', "there is no rule 'AS999'"),
        ("[tool.attnscope]\nbaseline = 1\n", "baseline is 1; give the path of a file"),
        ("[tool.attnscope]\nper-file-ignores = []\n", "per-file-ignores is []; make it a table"),
        ('[tool.attnscope.per-file-ignores]\n"*.py" = "AS201"\n', "*.py is 'AS201'; give a list"),
        ("[tool]\nattnscope = 1\n", "tool.attnscope is 1; make it a table"),
        ("[tool.attnscope\n", "mend the file"),
    ],
)
def test_a_mistake_is_told_with_the_file(here: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(here, text)
    assert said in str(caught.value)
    assert "pyproject.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "option"), [((["X"], []), "--select"), (([], ["X"]), "--ignore")]
)
def test_a_mistake_on_the_command_line_is_told_with_the_option(
    words: tuple[list[str], list[str]], option: str
) -> None:
    with pytest.raises(InputError, match=f"reading {option}: there is no rule 'X'"):
        Settings().with_words(*words)


def test_rules_that_are_ignored_without_a_reason_are_known(here: Path) -> None:
    text = '[tool.attnscope]\nignore = { AS201 = "masks come later", AS202 = " " }\n'
    assert read(here, text).unexplained == ("AS202",)
    found = read(here, '[tool.attnscope]\nignore = ["AS201", "AS202"]\n')
    assert found.unexplained == ("AS201", "AS202")
    assert found.with_words(["AS201"], ["AS202"]).unexplained == ()
