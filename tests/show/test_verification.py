"""What a comparison looks like on 100 columns: the verdict first, then why, then the evidence."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from attnscope.calls import Source
from attnscope.differ.comparison import Options
from attnscope.differ.conditions import Condition
from attnscope.differ.result import Case, FirstDifference, StageResult, Verification
from attnscope.differ.shrinking.smallest import Shrunk
from attnscope.differ.sides.aligning import Alignment
from attnscope.differ.walk.judging import Gap, Tolerance
from attnscope.differ.weights import WeightMap, pair
from attnscope.explain import Explanation
from attnscope.show.stages import collapsed
from attnscope.show.verification import shrunk_view, verification_view

FORWARD = ("input", "q", "k", "v", "raw_scores", "scores", "weights", "context", "output")
SAME = Gap(1e-9, 0.1)
SOURCE = Source("port.py", 68, "Attention.forward", "return weights @ v")
WHY = Explanation("scale", "scores times 0.25 where the reference has 0.5", 2e-8)


def apart(largest: float, **given: Any) -> Gap:
    """Return a gap beyond the tolerance."""
    index, values = given.pop("index", (1, 3, 2, 4)), given.pop("values", (0.5, -0.25))
    return Gap(largest, 1e6, index, values, given.pop("verdict", "numbers"))


def stage(name: str, call: int | None = 0, gap: Gap = SAME, **given: Any) -> StageResult:
    module = "" if call is None else f"layers.{call}.attention"
    return StageResult(name, call, given.pop("module", module), gap, given.pop("own", gap), **given)


def layer(call: int, gaps: Mapping[str, tuple[Gap, Gap]] | None = None) -> list[StageResult]:
    """Return the stages of a call; gaps: as both ran and by itself, of those that differ."""
    found = gaps or {}
    return [
        stage(name, call, found[name][0], own=found[name][1])
        if name in found
        else stage(name, call)
        for name in FORWARD
    ]


def first(**given: Any) -> FirstDifference:
    usual: dict[str, Any] = {
        "stage": "scores",
        "call": 1,
        "module": "layers.1.attention",
        "source": SOURCE,
        "index": (1, 3, 2, 4),
        "values": (0.5, -0.25),
        "largest": 0.75,
        "own_error": 0.75,
        "inherited_error": 0.0,
        "verdict": "numbers",
        "explanation": WHY,
    }
    return FirstDifference(**usual | given)


def made(
    stages: list[StageResult], difference: FirstDifference | None = None, **given: Any
) -> Verification:
    return Verification(
        candidate="port.py:mine",
        reference="arch:llama",
        equal=given.pop("equal", difference is None),
        conditions=given.pop("conditions", ()),
        first_difference=difference,
        stages=tuple(stages),
        alignment=Alignment(()),
        tolerance=Tolerance(6e-8),
        **given,
    )


def drawn(result: Verification, *, whole: bool = False, width: int = 100) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    console.print(verification_view(result, whole=whole, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


FAULTY = [
    *layer(0),
    *layer(1, {
        "scores": (apart(0.75), apart(0.75)),
        "weights": (apart(0.3), apart(0.3)),
        "context": (apart(0.004), apart(0.004)),
        "output": (apart(0.02), SAME),
    }),
    *layer(2, {name: (apart(0.0005), SAME) for name in FORWARD}),
    *layer(3, {name: (apart(0.001), SAME) for name in FORWARD}),
    stage("model", None, apart(0.05), own=SAME),
]  # fmt: skip


# -- the verdict ---------------------------------------------------------------------------------


def test_equal_says_what_was_compared() -> None:
    lines = drawn(made([*layer(0), stage("grad.q"), stage("model", None)]))
    assert lines[0] == "port.py:mine against arch:llama: equal"
    assert lines[1] == "11 tensors compared, gradients included"
    assert "forward alone" in drawn(made(layer(0)))[1]


def test_not_equal_says_first_where_and_why() -> None:
    lines = drawn(made(FAULTY, first()))
    assert lines[0] == "port.py:mine against arch:llama: not equal"
    where = "first at scores of call 1, layers.1.attention, at port.py:68 in Attention.forward"
    assert lines[1] == where
    text = "\n".join(lines)
    assert "because  scale: scores times 0.25 where the reference has 0.5" in text
    assert "with this change the stage agrees: 2e−08 of its largest entry remains" in text
    assert "batch 1, head 3, query 2, key 4: 0.5, the reference −0.25" in text
    assert "0.75 of the reference's largest entry, all of it its own" in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"explanation": None}, "no change that attnscope knows makes it agree"),
        ({"explanation": replace(WHY, remains=0.0)}, "the stage agrees exactly"),
        ({"stage": "k"}, "batch 1, head 3, key 2, feature 4: "),
        ({"stage": "grad.context"}, "batch 1, head 3, query 2, feature 4: "),
        ({"stage": "output", "index": (1, 6, 31)}, "entry [1, 6, 31]: "),
        ({"own_error": 0.5, "inherited_error": 0.25}, "0.5 of its own, 0.25 inherited"),
        ({"own_error": None}, "0.75 of the reference's largest entry, as both ran"),
        ({"verdict": "whole", "stage": "model", "call": None}, "all parts agree, the whole does"),
        ({"verdict": "shape", "values": None, "largest": float("inf")}, "the shapes differ"),
        ({"verdict": "non-finite", "values": (float("nan"), 1.0)}, "NaN, the reference 1"),
        ({"verdict": "missing"}, "calls of the reference have no counterpart"),
        ({"verdict": "extra"}, "attention calls that the reference doesn't"),
        ({"verdict": "rounding"}, "in float64 both agree"),
        ({"stage": "grad.parameter", "call": None, "module": "", "source": None,
          "part": "layers.0.wq.weight"}, "first at grad.parameter layers.0.wq.weight"),
        ({"stage": "model", "call": None, "module": "", "source": None},
         "first at the model's own output"),
    ],
)  # fmt: skip
def test_every_kind_of_difference_has_its_words(given: dict[str, Any], said: str) -> None:
    assert said in "\n".join(drawn(made(FAULTY, first(**given))))


def test_an_infinite_error_is_not_given_as_a_share() -> None:
    text = "\n".join(drawn(made(FAULTY, first(largest=float("inf"), verdict="shape"))))
    assert "of the reference's largest entry, all" not in text


def test_nothing_compared_is_said() -> None:
    assert drawn(made([], equal=False))[1] == "nothing could be compared"


# -- the stages ----------------------------------------------------------------------------------


def row(lines: list[str], start: str) -> list[str]:
    return next(line for line in lines if line.split()[:1] == [start]).split()


def test_one_row_a_call_marks_the_fault_and_what_follows_from_it() -> None:
    lines = drawn(made(FAULTY, first()))
    assert row(lines, "0")[2:] == ["="] * 9
    assert row(lines, "1")[2:] == ["="] * 5 + ["✗0.75", "↓0.3", "↓4e−03", "↓0.02"]
    assert "output of the model: ↓0.05" in lines
    assert "= equal  ✗ wrong by itself  ↓ follows" in lines


def test_neighbours_of_the_same_marks_share_a_row_with_the_largest_sizes() -> None:
    lines = drawn(made(FAULTY, first()))
    assert row(lines, "2–3")[1:] == ["layers.{2–3}.attention"] + ["↓1e−03"] * 9
    equal = drawn(made([stage for call in range(30) for stage in layer(call)]))
    assert row(equal, "0–29")[1:] == ["layers.{0–29}.attention"] + ["="] * 9


def test_what_cancels_is_marked_as_such() -> None:
    stages = [stage("q", 0, apart(0.9), cancelled=True), stage("scores")]
    lines = drawn(made(stages))
    assert row(lines, "0")[2:] == ["≈0.9", "="]
    assert "= equal  ≈ differs, cancels" in lines


@pytest.mark.parametrize(
    ("gap", "shown"),
    [
        (apart(float("inf"), verdict="shape"), "✗shape"),
        (apart(float("inf"), verdict="non-finite", values=(float("nan"), 1.0)), "✗NaN"),
        (apart(float("inf"), verdict="non-finite", values=(float("-inf"), 1.0)), "✗∞"),
        (apart(35.0), "✗35"),
        (apart(0.0123), "✗0.012"),
        (apart(0.00091), "✗9e−04"),
    ],
)
def test_sizes_are_short_and_never_a_number_where_there_is_none(gap: Gap, shown: str) -> None:
    assert row(drawn(made([stage("q", 0, gap)], first(stage="q", call=0))), "0")[-1] == shown


def test_gradients_have_a_table_of_their_own_and_one_first() -> None:
    stages = [
        *layer(0),
        stage("grad.output"),
        stage("grad.scores", gap=apart(0.9)),
        stage("grad.q", gap=apart(0.8)),
        stage("grad.input", None, apart(0.7), part="x"),
        *(stage("grad.parameter", None, apart(0.1), part=f"w{at}") for at in range(12)),
        stage("grad.parameter", None, part="held"),
    ]
    lines = drawn(made(stages, first(stage="grad.scores", call=0)))
    at = lines.index("gradients, from the last call back")
    assert lines[at + 1].split() == ["call", "module", "output", "scores", "q"]
    assert row(lines[at + 3 :], "0")[2:] == ["=", "✗0.9", "≠0.8"]
    text = "\n".join(lines)
    assert "gradients of the inputs: x ≠0.7" in text
    assert "gradients of parameters: 12 of 13 differ: w0 ≠0.1, w1 ≠0.1" in text
    assert "and 4 more" in text


def test_every_stage_is_shown_when_all_is_asked_for() -> None:
    lines = drawn(made(FAULTY, first()), whole=True)
    table = [line.split() for line in lines if line.split()[:1] in (["0"], ["1"], ["2"], ["3"])]
    assert [(cells[0], cells[1]) for cells in table] == [
        (str(call), name) for call in range(4) for name in FORWARD
    ]
    assert "scores" in table[14]
    assert table[14][-4:] == ["[1,", "3,", "2,", "4]"]
    assert "✗ wrong by itself" in " ".join(table[14])


@pytest.mark.parametrize("width", [80, 100, 140])
def test_nothing_is_wider_than_the_terminal_or_cut_off(width: int) -> None:
    deep = [
        replace(each, module=f"decoder.block.{each.call}.layer.1.cross_attention")
        for each in FAULTY
        if each.call is not None
    ]
    whole = drawn(made(deep, first(), weights=LONG), width=width)
    assert max(map(len, whole)) <= width
    assert not any("…" in line for line in whole)
    assert max(map(len, drawn(made(deep, first(), weights=LONG), whole=True, width=width))) <= width
    if width >= 100:
        assert any(line.endswith("output") for line in whole)


# -- cases, conditions, notes --------------------------------------------------------------------

CASES = (
    Case("one sample", equal=True, largest=1e-9),
    Case("length 2", equal=True, largest=1e-9),
    Case("decoding step by step", equal=False, largest=0.4, note="step 3 of 7"),
    Case("bfloat16", equal=None, largest=0.0, note="the candidate raised TypeError"),
)


def test_cases_that_differ_come_first_and_those_not_made_say_why() -> None:
    lines = drawn(made(layer(0), cases=CASES, equal=False))
    assert lines[1] == "equal on the inputs, not with: decoding step by step"
    assert row(lines, "decoding") == [
        "decoding", "step", "by", "step", "✗", "0.4", "step", "3", "of", "7",
    ]  # fmt: skip
    assert "equal also with: one sample, length 2" in lines
    assert "not compared with: bfloat16: the candidate raised TypeError" in lines


def test_cases_that_hold_are_counted_on_top() -> None:
    lines = drawn(made(layer(0), cases=CASES[:2]))
    assert lines[1].endswith(", 2 more cases of inputs")


def test_all_cases_are_a_table_when_all_is_asked_for() -> None:
    lines = drawn(made(layer(0), cases=CASES, equal=False), whole=True)
    assert row(lines, "bfloat16")[1] == "–"
    assert row(lines, "length")[2] == "="


def test_conditions_that_differ_have_a_line_each_and_the_others_share_one() -> None:
    conditions = (
        Condition("mode", "eval", "eval", equal=True),
        Condition("dtype", "bfloat16", "float32", equal=False, note="rounds more"),
        Condition("seed", "0", "0", equal=True),
    )
    lines = drawn(made(layer(0), conditions=conditions))
    assert "differs: dtype: bfloat16, the reference float32 (rounds more)" in lines
    assert "alike: mode: eval; seed: 0" in lines


def test_notes_come_last() -> None:
    assert drawn(made(layer(0), notes=("gradients not compared",)))[-1] == (
        "note gradients not compared"
    )


def test_what_shrinking_found_is_one_line_and_its_notes() -> None:
    before, after = {"batch": 2, "length": 7}, {"batch": 1, "length": 7}
    small = Shrunk(before, after, (), first(), Options(), notes=("length stays: ids",))
    out = io.StringIO()
    Console(file=out, width=100, color_system=None).print(shrunk_view(small))
    assert out.getvalue().split("\n")[1:3] == [
        "smallest inputs that still fail: batch 2 → 1, length 7",
        "note length stays: ids",
    ]


# -- weights -------------------------------------------------------------------------------------


class Layers(nn.Module):
    def __init__(self, count: int, names: tuple[str, str], stem: str = "layers") -> None:
        super().__init__()
        layers = [
            nn.ModuleDict({name: nn.Linear(6, 6, bias=False) for name in names})
            for _ in range(count)
        ]
        setattr(self, stem, nn.ModuleList(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def weights(count: int, stem: str = "layers") -> WeightMap:
    torch.manual_seed(3)
    return pair(Layers(count, ("wq", "wk"), stem), Layers(count, ("q_proj", "k_proj")), "auto")


LONG = weights(3, "a_rather_long_name_of_the_layers_of_the_decoder")


def test_pairs_of_equal_layers_share_a_row() -> None:
    lines = drawn(made(layer(0), weights=weights(4)))
    pairs = [line.split() for line in lines if line.startswith("layers.")]
    assert pairs == [
        ["layers.{0–3}.wq.weight", "layers.{0–3}.q_proj.weight", "copied"],
        ["layers.{0–3}.wk.weight", "layers.{0–3}.k_proj.weight", "copied"],
    ]
    assert any(line.startswith("weights: 8 pairs, 8 copied") for line in lines)


def test_a_reference_of_the_same_name_is_not_written_twice() -> None:
    mine = Layers(2, ("wq", "wk"))
    lines = drawn(made(layer(0), weights=pair(mine, mine, "auto")))
    assert [line.split()[1:] for line in lines if line.startswith("layers.")] == [
        ["same", "name", "equal"],
        ["same", "name", "equal"],
    ]


def test_every_pair_has_a_row_when_all_is_asked_for() -> None:
    lines = drawn(made(layer(0), weights=weights(4)), whole=True)
    assert sum(line.startswith("layers.") and "copied" in line for line in lines) == 8


def test_a_pair_that_is_not_whole_or_not_by_name_says_so() -> None:
    mine, theirs = Layers(1, ("wq", "wk")), Layers(1, ("q_proj", "k_proj"))
    with torch.no_grad():
        mine.get_parameter("layers.0.wq.weight").copy_(
            theirs.get_parameter("layers.0.q_proj.weight").T
        )
        mine.get_parameter("layers.0.wk.weight").copy_(
            theirs.get_parameter("layers.0.k_proj.weight")
        )
    text = "\n".join(drawn(made(layer(0), weights=pair(mine, theirs, "auto"))))
    assert "equal, transposed" in " ".join(text.split())


def test_long_names_are_broken_after_dots_alone() -> None:
    lines = drawn(made(layer(0), weights=LONG), width=60)
    at = next(number for number, line in enumerate(lines) if line.startswith("candidate"))
    parts = [cell for line in lines[at + 2 :] for cell in line.split()]
    assert "a_rather_long_name_of_the_layers_of_the_decoder.{0–2}.wq.weight" not in parts
    assert {"{0–2}.wq.", "weight"} <= set(parts) or "{0–2}.wq.weight" in parts


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["layers.0.wq"], "layers.0.wq"),
        (["layers.0.wq", "layers.1.wq", "layers.2.wq"], "layers.{0–2}.wq"),
        (["layers.0.wq", "layers.2.wq"], "layers.{0, 2}.wq"),
        (["a.0.b.0", "a.1.b.1"], "a.0.b.0 … a.1.b.1"),
        (["one", "other"], "one … other"),
        (["", ""], ""),
    ],
)
def test_names_that_differ_in_one_number_become_one(names: list[str], said: str) -> None:
    assert collapsed(names) == said
