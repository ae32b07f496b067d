from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class Decoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, width), nn.Embedding(64, width)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, input_ids, attention_mask):
        b, n = input_ids.shape
        real = attention_mask.bool()
        {body}
        q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
        seen = (torch.ones(n, n).tril().bool() & real[:, None, None]) | torch.eye(n).bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)[:, 0]
        return {result}


model = Decoder().eval()
attention_mask = torch.ones(3, 9, dtype=torch.long)
attention_mask[{padded}] = 0
inputs = {{"input_ids": torch.randint(1, 50, (3, 9)), "attention_mask": attention_mask}}
expect = {{"causal": True, "padding": "attention_mask keep"}}
"""
COUNTED = "x = self.tokens(input_ids) + self.places(torch.arange(n))  # here"


def program(body: str, result: str = "y", padded: str = "1, :4") -> str:
    return PROGRAM.format(body=body, result=result, padded=padded)


@pytest.mark.parametrize(
    "result", ["y", "y[:, -1]", "(y * real[..., None]).sum(1) / real.sum(1)[:, None]"]
)
def test_positions_that_count_padding(tmp_path: Path, result: str) -> None:
    finding = only(tmp_path, program(COUNTED, result), "AS504")
    assert (finding.code, finding.severity) == ("AS504", "error")
    assert finding.evidence["pads"] == 4
    assert finding.evidence["sample"] == 1
    assert finding.evidence["output"] > finding.evidence["noise"]
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


def test_a_second_input_that_runs_along(tmp_path: Path) -> None:
    text = program(COUNTED + "\n        x = x + self.returns(returns)")
    text = text.replace("input_ids, attention_mask):", "input_ids, returns, attention_mask):")
    text = text.replace("self.qkv =", "self.returns = nn.Linear(1, width)\n        self.qkv =")
    text = text.replace('"attention_mask": ', '"returns": torch.randn(3, 9, 1), "attention_mask": ')
    assert only(tmp_path, text, "AS504").evidence["pads"] == 4
    right = text.replace("torch.arange(n))", "(real.cumsum(1) - 1).clamp(min=0))")
    assert found(tmp_path, right, "AS504") == []


@pytest.mark.parametrize(("declared", "severity"), [(True, "error"), (False, "note")])
def test_padding_that_only_the_model_reads(
    tmp_path: Path, severity: str, *, declared: bool
) -> None:
    text = program(COUNTED, "y[:, -1]")
    text = text.replace("input_ids, attention_mask):", "input_ids):")
    text = text.replace("real = attention_mask.bool()", "real = input_ids != 0")
    text = text.replace("nn.Embedding(50, width)", "nn.Embedding(50, width, padding_idx=0)")
    text = text[: text.index("attention_mask = ")] + (
        "ids = torch.randint(1, 50, (3, 9))\nids[1, :4] = 0\ninputs = (ids,)\n"
    )
    text += 'expect = {"padding": "input_ids pad=0"}\n' if declared else ""
    findings = found(tmp_path, text, "AS504")
    assert [(code, level) for code, level, _ in findings] == [("AS504", severity)]


def test_positions_that_start_after_the_longest_padding(tmp_path: Path) -> None:
    body = (
        "at = (torch.arange(n) - (~real).sum(1).amax()).clamp(min=0)  # here\n"
        "        x = self.tokens(input_ids) + self.places(at)"
    )
    text = program(body, padded="1, :4").replace(
        "attention_mask[1, :4] = 0", "attention_mask[1, :4] = attention_mask[2, :1] = 0"
    )
    finding = only(tmp_path, text, "AS504")
    assert finding.evidence["sample"] == 2
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize(
    ("body", "padded"),
    [
        ("x = self.tokens(input_ids) + self.places((real.cumsum(1) - 1).clamp(min=0))", "1, :4"),
        (COUNTED, "1, 5:"),  # padded on the right
        ("x = self.tokens(input_ids)", "1, :4"),
        ("x = self.tokens(input_ids) + self.places(n - 1 - torch.arange(n))", "1, :4"),
        (COUNTED, "1, 9:"),  # not padded at all
    ],
)
def test_positions_of_real_tokens_are_silent(tmp_path: Path, body: str, padded: str) -> None:
    assert found(tmp_path, program(body, padded=padded), "AS504") == []


def test_padding_that_is_read_is_left_to_another_rule(tmp_path: Path) -> None:
    text = program(COUNTED).replace("& real[:, None, None]", "& True")
    assert found(tmp_path, text, "AS504") == []
