"""Rules are run one by one; none that fails, and no model that raises, hides what others find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.calls.source import Source
from attnscope.checks.engine import run_rules
from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped
from attnscope.checks.subject.subject import Subject
from attnscope.errors import InputError, TargetError
from tests.checks.rules.by_hand import made_rule
from tests.checks.small import SelfAttention, noise


def rule(code: str, check: Any, severity: Any = "error", **more: Any) -> Rule:
    return made_rule(code, code.lower(), severity, check=check, **more)


def fires(code: str, line: int, call: int | None = 0) -> Any:
    def check(subject: Subject) -> Iterator[Finding]:
        of = subject.calls[call] if call is not None and subject.calls else None
        yield rule(code, None).found("m", {}, source=Source("f.py", line, "f", ""), call=of)

    return check


def skips(_subject: Subject) -> Iterator[Finding]:
    raise Skipped("give a mask")


def fails(_subject: Subject) -> Iterator[Finding]:
    raise ZeroDivisionError("by zero")


def finds_then_fails(subject: Subject) -> Iterator[Finding]:
    yield from fires("AS901", 9)(subject)
    raise KeyError("later")


SILENT = rule("AS101", lambda _subject: iter(()))


def subject(model: Any = None, inputs: Any = None) -> Subject:
    return Subject(
        model or SelfAttention(), inputs if inputs is not None else noise(2, 5, 16), name="m"
    )


def test_what_ran_what_was_skipped_and_what_failed_is_told() -> None:
    report = run_rules(subject(), [SILENT, rule("AS201", skips), rule("AS202", fails)])
    assert report.rules_run == ("AS101",)
    skipped, failed = report.rules_skipped
    assert (skipped.code, skipped.reason, skipped.failed) == ("AS201", "give a mask", False)
    assert failed.failed
    assert "ZeroDivisionError: by zero at test_engine.py:" in failed.reason
    assert report.calls == 1
    assert report.ok


def test_a_rule_that_fails_late_keeps_what_it_found_and_hides_no_other() -> None:
    report = run_rules(
        subject(), [rule("AS901", finds_then_fails), rule("AS101", fires("AS101", 3))]
    )
    assert [f.code for f in report.findings] == ["AS101", "AS901"]
    assert [each.code for each in report.rules_skipped if each.failed] == ["AS901"]


def test_the_worst_comes_first() -> None:
    def mild(each: Subject) -> Iterator[Finding]:
        yield rule("AS101", None, "note").found("m", {}, call=each.calls[0])

    report = run_rules(subject(), [rule("AS101", mild, "note"), rule("AS802", fires("AS802", 1))])
    assert [f.severity for f in report.findings] == ["error", "note"]


class Raises(SelfAttention):
    def forward(self, x: Tensor) -> Any:
        self.attend(x)
        raise ValueError("what went wrong")


def test_a_forward_that_raises_is_an_error_with_its_line() -> None:
    with pytest.raises(TargetError) as caught:
        run_rules(subject(Raises()), [SILENT])
    text = str(caught.value)
    assert "ValueError: what went wrong" in text
    assert "test_engine.py:" in text
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_rule_that_explains_a_crash_is_run_alone_and_reported() -> None:
    explains = rule("AS105", fires("AS105", 1, None), on_crash=True)
    report = run_rules(subject(Raises()), [SILENT, explains])
    assert [f.code for f in report.findings] == ["AS105"]
    assert report.rules_run == ("AS105",)
    assert "what went wrong" in report.rules_skipped[0].reason


def test_a_note_does_not_explain_a_crash() -> None:
    def mild(_subject: Subject) -> Iterator[Finding]:
        yield rule("AS105", None, "note").found("m", {})

    with pytest.raises(TargetError):
        run_rules(subject(Raises()), [rule("AS105", mild, "note", on_crash=True)])


def test_a_run_without_attention_is_said_to_have_none() -> None:
    report = run_rules(subject(nn.Linear(16, 4)), [SILENT])
    assert report.calls == 0
    assert any("no attention was seen" in note for note in report.notes)
    assert not any("no attention" in note for note in run_rules(subject(), [SILENT]).notes)


def test_each_rule_is_announced() -> None:
    told: list[str] = []
    run_rules(Subject(SelfAttention(), noise(2, 5, 16), announce=told.append), [SILENT])
    assert told == ["running the model", "AS101 as101"]


def test_the_random_state_is_as_before_whatever_rules_draw() -> None:
    def draws(_subject: Subject) -> Iterator[Finding]:
        torch.manual_seed(7)
        yield from ()

    asked = subject()
    before = torch.get_rng_state()
    run_rules(asked, [rule("AS101", draws)])
    assert torch.equal(torch.get_rng_state(), before)


def test_inputs_that_are_not_finite_are_refused_unless_the_model_deals_with_them() -> None:
    class Filled(SelfAttention):
        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = super().forward(x.nan_to_num())
            return made

    x = noise(2, 5, 16)
    x[0, 1] = float("nan")
    assert run_rules(subject(Filled(), x), [SILENT]).ok
    with pytest.raises(InputError, match="16 of the 160 entries of x"):
        run_rules(subject(None, x), [SILENT])


def test_padding_may_hold_anything() -> None:
    class Masked(SelfAttention):
        def forward(self, x: Tensor, keep: Tensor) -> Tensor:  # type: ignore[override]
            made: Tensor = super().forward(x) * keep[..., None]
            return made

    x, keep = noise(2, 5, 16), torch.arange(5)[None] < torch.tensor([[5], [3]])
    x[1, 4] = float("inf")
    given = Subject(Masked(), (x, keep), {"padding": "keep keep"}, name="m")
    assert run_rules(given, [SILENT]).ok


def test_a_model_that_returns_nothing_is_told() -> None:
    class Mute(SelfAttention):
        def forward(self, x: Tensor) -> Any:
            super().forward(x)

    class Speaks(SelfAttention):
        def forward(self, x: Tensor) -> Any:
            return str(super().forward(x).sum())

    notes = run_rules(subject(Mute()), [SILENT]).notes
    assert any("returns None, as a forward without a return" in note for note in notes)
    notes = run_rules(subject(Speaks()), [SILENT]).notes
    assert any("returns no float tensor" in note for note in notes)


@pytest.mark.parametrize("shape", [(0, 5, 16), (2, 0, 16)])
def test_inputs_without_a_token_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="is empty: there is no token"):
        run_rules(Subject(SelfAttention(), torch.zeros(shape), name="m"), [SILENT])


def test_what_is_declared_and_could_not_be_checked_is_told() -> None:
    declared = {"causal": True, "window": [4, 4, 4]}
    report = attnscope.check(SelfAttention().eval(), noise(2, 9, 16), expect=declared)
    (note,) = [note for note in report.notes if note.startswith("expect ")]
    assert note.startswith("expect window could not be checked: 3 windows are declared for the 1")
