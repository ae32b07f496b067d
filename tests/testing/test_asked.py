"""What a project says in `[tool.attnscope]` holds in tests as it does on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnscope.calls import Source
from tests.checks.rules.by_hand import LEAK
from tests.testing.standin import Engine, found, items

Skipped, Xfailed = pytest.skip.Exception, pytest.xfail.Exception


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with settings."""
    (tmp_path / "pyproject.toml").write_text(
        "[tool.attnscope]\n"
        'ignore = { AS203 = "rows are empty by design" }\n'
        "[tool.attnscope.per-file-ignores]\n"
        '"legacy.py" = { AS201 = "as the checkpoint has it" }\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_what_the_project_ignores_is_not_run_and_its_item_skips_with_the_reason(
    engine: Engine,
) -> None:
    engine.reports(rules_run=("AS201", "AS202", "AS404"))
    with pytest.raises(Skipped, match="rows are empty by design"):
        items()["AS203"]()
    assert engine.asked[0].ignore == ("AS203",)


@pytest.mark.usefixtures("project")
def test_what_a_test_selects_by_name_is_run_although_the_project_ignores_it(
    engine: Engine,
) -> None:
    items(select=["empty-row"])["AS203"]()
    assert (engine.asked[0].select, engine.asked[0].ignore) == (("AS203",), ())


def test_what_the_project_silences_in_a_file_is_an_expected_failure(
    engine: Engine, project: Path
) -> None:
    (project / "legacy.py").write_text("leak = 1\n")
    source = Source(str(project / "legacy.py"), 1, "forward", "leak = 1")
    engine.reports(found(LEAK, source=source))
    with pytest.raises(Xfailed, match="silenced by settings: as the checkpoint has it"):
        items()["AS201"]()


def test_the_project_of_a_target_is_that_of_its_file(engine: Engine, project: Path) -> None:
    below = project / "below"
    below.mkdir()
    (below / "net.py").write_text("from torch import nn\nmodel = nn.Linear(4, 4)\n")
    (below / "pyproject.toml").write_text('[tool.attnscope]\nselect = ["AS4"]\n')
    assert list(items("below/net.py:model")) == ["AS404"]
    assert list(items("below/net.py:model", select=["AS201"])) == ["AS201"]
    items("below/net.py")["AS404"]()
    assert engine.asked[0].name == "below/net.py"
