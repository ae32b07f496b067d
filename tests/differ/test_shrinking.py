"""The smallest inputs that fail: found by size, failing for one reason, written as a script."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.differ.cases.made import qkv
from attnscope.differ.comparison import Comparison, Options
from attnscope.differ.result import Verification
from attnscope.differ.shrinking.smaller_models import rebuilt
from attnscope.differ.shrinking.smallest import Shrunk, shrink, smallest
from attnscope.differ.sides.subject import Subject
from attnscope.errors import InputError
from attnscope.targets.architectures import build
from tests.differ import small_models as small
from tests.ports import PORTS


def shrunken(candidate: Any, reference: Any, inputs: Any, **expect: Any) -> Shrunk:
    sides = Subject("mine", candidate), Subject("theirs", reference)
    comparison = Comparison(*sides, inputs, Options(expect))
    return shrink(comparison, comparison.run())


def again(shrunk: Shrunk, candidate: Any, reference: Any) -> Verification:
    sides = Subject("mine", candidate), Subject("theirs", reference)
    return Comparison(*sides, shrunk.inputs, Options()).run()


def test_a_window_is_shown_by_one_sample_and_as_many_tokens_as_name_it() -> None:
    sides = small.Plain(), small.Plain(seen=small.window_of_four)
    shrunk = shrunken(*sides, {"ids": small.ids(5, 13)})
    assert shrunk.before == {"batch": 5, "length": 13}
    assert shrunk.after == {"batch": 1, "length": 6}
    result = again(shrunk, *sides)
    assert not result.equal
    assert result.first_difference is not None
    assert shrunk.difference.explanation is not None
    assert result.first_difference.explanation is not None
    assert result.first_difference.explanation.key == shrunk.difference.explanation.key
    assert str(shrunk) == "batch 5 → 1, length 13 → 6"


def test_positions_beyond_a_table_keep_the_length_that_reaches_them() -> None:
    sides = small.Plain(places=small.clamped), small.Plain()
    shrunk = shrunken(*sides, (small.ids(3, 12),))
    assert shrunk.after == {"batch": 1, "length": 9}


def test_mixed_samples_keep_two_of_them() -> None:
    sides = small.Plain(change=small.over_the_batch), small.Plain()
    shrunk = shrunken(*sides, (small.ids(4, 6),))
    assert shrunk.after == {"batch": 2, "length": 1}


def test_the_one_sample_that_fails_is_kept() -> None:
    inputs = {"ids": small.ids(4, 6), "attention_mask": torch.ones(4, 6, dtype=torch.long)}
    inputs["attention_mask"][2, :2] = 0

    class Deaf(small.Plain):
        def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
            del attention_mask
            return super().forward(ids)

    shrunk = shrunken(Deaf(), small.Plain(), inputs)
    assert shrunk.after["batch"] == 1
    assert isinstance(shrunk.inputs, dict)
    assert 0 in shrunk.inputs["attention_mask"]
    assert shrunk.after["length"] == 2


def test_a_function_is_reduced_in_every_size() -> None:
    def unscaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT).softmax(-1) @ v

    given = qkv(0, heads=4, keys=9, value_dim=5)
    shrunk = shrunken(unscaled, F.scaled_dot_product_attention, given)
    assert shrunk.before == {
        "batch": 2, "heads": 4, "queries": 7, "keys": 9, "head_dim": 8, "value_dim": 5
    }  # fmt: skip
    assert shrunk.after == {
        "batch": 1, "heads": 1, "queries": 1, "keys": 2, "head_dim": 2, "value_dim": 1
    }  # fmt: skip
    assert shrunk.seeded == (0, 1, 2)


def test_shared_kv_heads_stay_shared() -> None:
    def tiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (x.repeat(1, 2, 1, 1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v)

    def shared(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    shrunk = shrunken(tiled, shared, qkv(0, heads=8, kv_heads=4))
    assert shrunk.after["heads"] == 4
    assert isinstance(shrunk.inputs, tuple)
    assert shrunk.inputs[1].shape[1] == 2


def test_numbers_are_kept_where_random_ones_do_not_fail() -> None:
    def clipped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q.clamp(max=10), k, v)

    q, k, v = qkv(0)
    q[1, 2, 3, 4] = 11.0
    shrunk = shrunken(clipped, F.scaled_dot_product_attention, (q, k, v))
    assert shrunk.seeded == ()
    assert isinstance(shrunk.inputs, tuple)
    assert shrunk.inputs[0].max() == 11
    assert shrunk.after["queries"] == 1


def test_nothing_to_shrink_is_refused() -> None:
    with pytest.raises(InputError, match="nothing differs on its inputs"):
        shrunken(small.Plain(), small.Plain(), (small.ids(),))


def test_inputs_that_cannot_be_cut_are_kept_and_it_is_said() -> None:
    class Odd(small.Plain):
        def forward(self, ids: Tensor, extra: Any = None) -> Tensor:
            del extra
            return super().forward(ids)

    shrunk = shrunken(
        Odd(places=small.one_late), Odd(seen=small.all_seen), {"ids": small.ids(), "extra": {}}
    )
    assert shrunk.before == shrunk.after
    assert shrunk.notes == ("nothing could be made smaller: the inputs hold a dict",)


@pytest.mark.parametrize(
    "port",
    [p for p in PORTS if (p.key and "gpt-oss" in p.name) or "function" in p.name][::12],
    ids=lambda port: port.name,
)
def test_the_explanation_stays_the_same(port: Any) -> None:
    pair = port.make()
    shrunk = shrunken(pair.candidate, pair.reference, pair.inputs)
    assert shrunk.difference.explanation is not None
    assert shrunk.difference.explanation.key == port.key
    assert all(shrunk.after[name] <= size for name, size in shrunk.before.items())
    assert shrunk.after["batch"] == 1


def test_the_smallest_size_is_found() -> None:
    for edge in range(1, 40):
        tried: list[int] = []

        def fails(size: int, edge: int = edge, tried: list[int] = tried) -> bool:
            tried.append(size)
            return size >= edge

        assert smallest(40, fails) == edge
        assert len(tried) <= 9
    assert smallest(1, lambda _size: False) == 1
    assert smallest(12, lambda size: size in {2, 9}) == 2


def test_models_with_a_config_are_built_again_with_fewer_layers_and_heads() -> None:
    from transformers import LlamaForCausalLM

    class Unscaled(LlamaForCausalLM):  # type: ignore[no-untyped-call]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            for layer in self.model.layers:
                layer.self_attn.scaling = 1.0

    built = build("llama")
    candidate: Any = Unscaled(built.model.config)
    candidate.eval()
    candidate.load_state_dict(built.model.state_dict())
    shrunk = shrunken(candidate, built.model, built.inputs)
    assert shrunk.after == {"batch": 1, "length": 2, "layers": 1, "heads": 2, "width": 16}
    assert shrunk.before["layers"] == 2
    sides = (rebuilt(Subject("side", one), shrunk.config) for one in (candidate, built.model))
    ours, theirs = (side.run for side in sides)
    result = again(shrunk, ours, theirs)
    assert result.first_difference is not None
    assert result.first_difference.explanation is not None
    assert result.first_difference.explanation.key == "scale"
    assert "smaller(sides.candidate.run)" in shrunk.script("mine.py:mine", "arch:llama")
    assert candidate.config.num_hidden_layers == 2


def test_a_fault_that_a_config_does_not_make_keeps_its_layers() -> None:
    built = build("llama")
    candidate: Any = copy.deepcopy(built.model)
    candidate.model.layers[1].self_attn.scaling = 1.0
    shrunk = shrunken(candidate, built.model, built.inputs)
    assert shrunk.after == {"batch": 1, "length": 2}
    assert shrunk.config == {}


# -- the script ----------------------------------------------------------------------------------

SIDES = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, power=0.5):
        super().__init__()
        torch.manual_seed(1)
        self.power = power
        self.q, self.k, self.v = (nn.Linear(6, 6) for _ in range(3))

    def forward(self, x, visible):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.mT / q.shape[-1] ** self.power
        return scores.masked_fill(~visible, -torch.inf).softmax(-1) @ v


reference = sound = Attention()
faulty = Attention(1.0)
"""


def script_of(folder: Path, candidate: str) -> Path:
    """Shrink the failure of the faulty module; return its script with another candidate."""
    (folder / "sides.py").write_text(SIDES)
    made: dict[str, Any] = {}
    exec(SIDES, made)  # noqa: S102  the text above
    x = torch.randn(3, 8, 6, generator=torch.Generator().manual_seed(0))
    inputs = {"x": x, "visible": torch.ones(8, 8, dtype=torch.bool).tril()}
    shrunk = shrunken(made["faulty"], made["reference"], inputs)
    assert shrunk.after == {"batch": 1, "length": 2}
    script = folder / "failure.py"
    script.write_text(shrunk.script(f"sides.py:{candidate}", "sides.py:reference"))
    return script


def run(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, script.name],
        check=False,
        capture_output=True,
        text=True,
        cwd=script.parent,
    )


def test_the_script_fails_in_a_fresh_process_for_the_same_reason(tmp_path: Path) -> None:
    script = script_of(tmp_path, "faulty")
    assert len(script.read_text().splitlines()) < 35
    ran = run(script)
    assert ran.returncode == 1, ran.stderr
    assert "first at scores" in ran.stdout
    assert "scale: " in ran.stdout
    assert "AssertionError" in ran.stderr


def test_the_script_passes_with_a_sound_candidate(tmp_path: Path) -> None:
    ran = run(script_of(tmp_path, "sound"))
    assert ran.returncode == 0, ran.stderr
    assert "equal" in ran.stdout


def test_a_script_says_all_that_the_comparison_was_given() -> None:
    sides = Subject("mine", small.Plain(train_scale=2)), Subject("theirs", small.Plain())
    sides[0].run.train()  # type: ignore[attr-defined]
    mask = torch.zeros(2, 1, 5, 5).masked_fill(~small.corner(5, 5), -torch.inf)
    options = Options({"causal": True}, weights="keep", seed=4, factor=2.0)
    inputs = (small.ids(2, 5), torch.ones(2, 5, dtype=torch.int32))
    comparison = Comparison(*sides, inputs, options)
    shrunk = shrink(comparison, comparison.run())
    text = shrunk.script("a.py:b", "arch:llama", attention="eager")
    for part in (
        "expect={'causal': True}", "weights='keep'", "seed=4", "factor=2.0", "dtype=torch.int32",
        "attention='eager'", "gradients=False", "matrix=False", "'arch:llama'",
    ):  # fmt: skip
        assert part.replace("'", '"') in text.replace("'", '"')
    assert mask.isinf().any()
    compile(text, "script.py", "exec")
