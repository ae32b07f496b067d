from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

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
    assert finding.evidence["largest"] <= finding.evidence["bound"]
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
