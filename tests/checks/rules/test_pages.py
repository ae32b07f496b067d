"""Every rule: its code, its texts, and its two programs, on which it fires and stays silent."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attnscope.checks.entry import check
from attnscope.checks.finding import SEVERITIES, Finding
from attnscope.checks.formats.wording import first_sentence
from attnscope.checks.report import Report
from attnscope.checks.rule import Rule
from attnscope.checks.rules import RULES, rule_of
from attnscope.targets import importing_from, resolve
from tests.checks.rules.catalogue import CATALOGUE

ROOT = Path(__file__).parents[3]
HOME = ROOT / "src" / "attnscope" / "checks" / "rules"

every_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])

TEXTS = ("what", "why", "fix", "proof")


# -- the table -----------------------------------------------------------------------------------


def test_the_table_has_every_code_in_order_with_its_name_and_severity() -> None:
    assert [(rule.code, rule.name, rule.severity) for rule in RULES] == list(CATALOGUE)


def test_no_code_and_no_name_is_used_twice() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)


@every_rule
def test_a_rule_is_found_by_its_code_and_by_its_name(rule: Rule) -> None:
    assert rule_of(rule.code.lower()) is rule_of(rule.name.upper()) is rule


@every_rule
def test_a_rule_lives_in_the_file_of_its_name(rule: Rule) -> None:
    file = HOME / f"{rule.name.replace('-', '_')}.py"
    assert rule.check.__module__ == f"attnscope.checks.rules.{file.stem}"
    assert file.read_text(encoding="utf-8").startswith(f'"""{rule.code}: ')


# -- the texts -----------------------------------------------------------------------------------


def faults_of_text(text: str) -> list[str]:
    """Return what is wrong with a paragraph of a page."""
    joined = " ".join(text.split())
    found = []
    if len(joined.split()) < 6:
        found.append("it is no sentence")
    if not joined or not (joined[0].isupper() or joined[0] in "`'\"_/" or not joined[0].isalpha()):
        found.append("it begins with a small letter")
    if not joined.endswith((".", "!", "?", ".)", "`.")):
        found.append("it ends without a stop")
    if re.search(r"\b(?:TODO|FIXME|TBD|XXX)\b", joined):
        found.append("it is not finished")
    if joined.count("`") % 2:
        found.append("a piece of code is not closed")
    return found


@pytest.mark.parametrize("part", TEXTS)
@every_rule
def test_a_text_is_whole_sentences(rule: Rule, part: str) -> None:
    assert faults_of_text(getattr(rule, part)) == []


@every_rule
def test_limits_are_whole_sentences_where_there_are_any(rule: Rule) -> None:
    assert not rule.limits or faults_of_text(rule.limits) == []


@every_rule
def test_the_first_sentence_can_stand_in_a_table(rule: Rule) -> None:
    for text in (rule.what, rule.why):
        assert faults_of_text(first_sentence(text)) == []
    assert len(first_sentence(rule.what)) <= 240


@every_rule
def test_sources_are_addresses(rule: Rule) -> None:
    for source in rule.sources:
        assert re.fullmatch(r"https://[\w.-]+\.\w+(?:/\S*)?", source)
    assert len(set(rule.sources)) == len(rule.sources)


@every_rule
def test_what_a_rule_explains_are_other_rules(rule: Rule) -> None:
    known = {code for code, _, _ in CATALOGUE}
    assert set(rule.explains) <= known - {rule.code}
    assert len(set(rule.explains)) == len(rule.explains)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it is no sentence"),
        ("Keys and values.", "it is no sentence"),
        ("the scores are scaled twice before the softmax.", "it begins with a small letter"),
        ("The scores are scaled twice before the softmax", "it ends without a stop"),
        ("The scores are scaled twice, TODO say where it is.", "it is not finished"),
        ("The `scores are scaled twice before the softmax.", "a piece of code is not closed"),
    ],
)
def test_a_poor_text_would_be_noticed(text: str, fault: str) -> None:
    assert fault in faults_of_text(text)


# -- the two programs ----------------------------------------------------------------------------


Checker = Callable[[str], tuple[Report, str]]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    """Return what checks a program once: saved as a file, and named as a target."""

    @functools.cache
    def check_once(program: str) -> tuple[Report, str]:
        file = tmp_path_factory.mktemp("page") / "program.py"
        file.write_text(program, encoding="utf-8")
        with torch.random.fork_rng():
            torch.manual_seed(0)
            found = resolve(str(file))
        with importing_from(found.folder):
            report = check(found.model, found.inputs, expect=found.expect, name=found.name)
        return report, str(file)

    return check_once


def codes_of(findings: tuple[Finding, ...]) -> set[str]:
    """Return the codes of findings, of those folded under them, too."""
    return {each.code for each in findings}.union(*(codes_of(each.follows) for each in findings))


def missing_parts(rule: Rule) -> list[str]:
    """Return what a rule has no program for."""
    found = []
    for part in ("bad", "good"):
        program = getattr(rule, part)
        names = {
            target.id if isinstance(target, ast.Name) else getattr(target, "name", "")
            for node in ast.parse(program).body
            for target in (node.targets if isinstance(node, ast.Assign) else [node])
        }
        if "model" not in names:
            found.append(part)
    return found


@every_rule
def test_a_rule_has_a_bad_and_a_good_program(rule: Rule) -> None:
    assert missing_parts(rule) == []
    assert rule.bad.strip() != rule.good.strip()


def test_a_rule_without_programs_would_be_noticed() -> None:
    sound = replace(RULES[0], bad="class model: pass", good="def model(): pass")
    assert missing_parts(sound) == []
    assert missing_parts(replace(sound, bad="")) == ["bad"]
    assert missing_parts(replace(sound, good="net = None")) == ["good"]


@every_rule
def test_the_bad_program_has_this_fault_and_no_graver_one(rule: Rule, checked: Checker) -> None:
    report, _ = checked(rule.bad)
    assert rule.code in {each.code for each in report.findings}, str(report)
    own = next(each for each in report.findings if each.code == rule.code)
    worse = SEVERITIES[: SEVERITIES.index(own.severity)]
    assert [each.code for each in report.findings if each.severity in worse] == []


@every_rule
def test_a_finding_has_numbers_a_sentence_and_a_place(rule: Rule, checked: Checker) -> None:
    report, file = checked(rule.bad)
    own = [each for each in report.findings if each.code == rule.code]
    assert own
    for finding in own:
        assert finding.name == rule.name
        assert SEVERITIES.index(finding.severity) >= SEVERITIES.index(rule.severity) or (
            rule.severity == "note"  # which some intention makes a warning
        )
        assert re.search(r"\d|NaN|∞|inf", finding.message)
        assert finding.evidence
        assert finding.fix.strip()
        assert finding.source is not None
        assert finding.source.file == file
        assert finding.source.code.strip()


@every_rule
def test_the_good_program_is_sound(rule: Rule, checked: Checker) -> None:
    report, _ = checked(rule.good)
    assert rule.code not in codes_of(report.findings), str(report)
    assert report.ok, str(report)
    assert rule.code in report.rules_run, f"skipped: {report.rules_skipped}"
