from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

import attnscope
from attnscope.checks.residual.loading import loads_of, loads_watched
from attnscope.checks.residual.unloaded import evidence_of_training
from tests.checks.written import HEAD, found, only

PROGRAM = """
class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        {more}

    def forward(self, x):
        y = F.scaled_dot_product_attention(*(f(x)[:, None] for f in (self.q, self.k, self.v)))
        return self.out(y[:, 0])


class Layer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width)

    def forward(self, x):
        return x + self.attention(self.norm(x))


def restored(rename):
    layer = Layer()
    shapes = layer.state_dict()
    stored = {{name: 1 + 0.3 * torch.randn(t.shape) for name, t in shapes.items()}}
    stored = {{rename(name): value for name, value in stored.items()}}
    layer.load_state_dict(stored, strict=False)  # here
    return layer


model = {model}
model.eval()
inputs = torch.randn(2, 9, 32)
"""


def program(model: str, more: str = "pass") -> str:
    return PROGRAM.format(model=model, more=more)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (
            'restored(lambda n: n.replace("attention.", "attn."))',
            {"q.weight", "k.weight", "v.weight", "out.weight"},
        ),
        (
            'restored(lambda n: n.replace(".q.", ".query.").replace(".k.", ".key."))',
            {"q.weight", "k.weight"},
        ),
        (
            'restored(lambda n: n.replace(".v.", ".value."))',
            {"v.weight"},
        ),
    ],
)
def test_attention_that_was_not_loaded(tmp_path: Path, model: str, names: set[str]) -> None:
    finding = only(tmp_path, program(model), "AS905")
    assert (finding.code, finding.severity) == ("AS905", "warning")
    assert {each.removeprefix("attention.") for each in finding.evidence["parameters"]} == names
    assert len(finding.evidence["unexpected"]) >= len(names)
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("restored(lambda n: n)", "pass"),
        ("Layer()", "pass"),  # fresh as a whole
        ("restored(lambda n: n)", "self.lora_a = nn.Linear(width, 4, bias=False)"),
        ("Attention()", "pass"),
    ],
)
def test_loaded_and_fresh_models_are_silent(tmp_path: Path, model: str, more: str) -> None:
    assert found(tmp_path, program(model, more), "AS905") == []


def test_norms_that_are_drawn_around_zero_are_not_trained() -> None:
    each = [nn.BatchNorm2d(32) for _ in range(4000)]
    norms = nn.ModuleList(each)
    torch.manual_seed(0)
    for norm in each:
        nn.init.normal_(norm.weight, std=0.01)
    assert evidence_of_training(norms, ["attention"]) is None
    nn.init.normal_(each[7].weight, mean=1.0, std=0.1)
    assert evidence_of_training(norms, ["attention"]) == "7.weight"


def test_attention_that_took_a_step_is_silent(tmp_path: Path) -> None:
    text = (
        program("Layer()")
        + """
with torch.no_grad():
    model.norm.weight.mul_(torch.linspace(0.5, 1.5, 32))
    for name, value in model.attention.named_parameters():
        value.add_(0.01 * torch.randn(value.shape))
"""
    )
    assert found(tmp_path, text, "AS905") == []


def test_values_tell_it_where_nobody_saw_the_load(tmp_path: Path) -> None:
    text = program('restored(lambda n: n.replace("attention.", "attn."))')
    (tmp_path / "program.py").write_text(HEAD + text)
    file = runpy.run_path(str(tmp_path / "program.py"))
    (finding,) = attnscope.check(file["model"], file["inputs"], select=["AS905"]).findings
    assert finding.evidence["largest"] <= finding.evidence["bound"]


def test_a_weight_that_is_filled_after_the_load_is_silent(tmp_path: Path) -> None:
    text = program('restored(lambda n: n.replace("attention.", "attn."))')
    text += "with torch.no_grad():\n    for each in model.parameters(): each.pow_(3)\n"
    assert found(tmp_path, text, "AS905") == []


def test_loading_is_as_it_was_after_the_watch() -> None:
    original = nn.Module.load_state_dict
    layer = nn.Linear(3, 3)
    with loads_watched():
        told = layer.load_state_dict({"weights": torch.ones(3, 3)}, strict=False)
    assert nn.Module.load_state_dict is original
    assert (told.missing_keys, told.unexpected_keys) == (["weight", "bias"], ["weights"])
    ((path, load),) = loads_of(layer)
    assert (path, load.missing, dict(load.unexpected)) == (
        "",
        ("weight", "bias"),
        {"weights": (3, 3)},
    )
    assert load.source is not None
    assert load.source.code.startswith("told = ")
