from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.masking.specimens import checked, codes, the_finding
from tests.checks.written import found

ATTENTION = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.mT / 4
        {mask}
        return {attend}


model = Attention().eval()
inputs = {{"x": torch.randn(2, 6, 16), "mask": torch.ones(6, 6, dtype=torch.bool).triu(1)}}
"""


def test_a_fill_whose_result_is_dropped(tmp_path: Path) -> None:
    line = 'scores.masked_fill(mask, float("-inf"))  # here'
    finding = the_finding(tmp_path, ATTENTION.format(mask=line, attend="scores.softmax(-1) @ v"))
    assert (finding.code, finding.severity) == ("AS208", "warning")
    assert finding.evidence["argument"] == "mask"
    assert finding.evidence["values"] == 3
    in_place = line.replace("fill(", "fill_(")
    assert codes(tmp_path, ATTENTION.format(mask=in_place, attend="scores.softmax(-1) @ v")) == []


def test_a_branch_that_forgets_the_mask(tmp_path: Path) -> None:
    kernel = "F.scaled_dot_product_attention(q, k, v)  # here"
    finding = the_finding(tmp_path, ATTENTION.format(mask="pass", attend=kernel))
    assert finding.evidence["largest"] == 0.0


def test_a_mask_that_is_not_handed_on(tmp_path: Path) -> None:
    program = """
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x, mask=None):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            scores = q @ k.mT / 4
            if mask is not None:
                scores = scores.masked_fill(mask, -1e9)
            return scores.softmax(-1) @ v


    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Block(), Block()

        def forward(self, x, mask):
            return self.second(self.first(x)FIRST)  # here


    model = Model().eval()
    inputs = {"x": torch.randn(2, 6, 16), "mask": torch.ones(6, 6, dtype=torch.bool).triu(1)}
    """
    assert "mask is left out here" in the_finding(tmp_path, program.replace("FIRST", "")).message
    assert codes(tmp_path, program.replace("FIRST", ", mask")) == []


FUNCTION = """
def attend(q, k, v, window=None, causal=False):
    n = q.shape[1]
    far = torch.arange(n)[:, None] - torch.arange(n)
    hidden = far < 0
    if {reads}:
        hidden = hidden | (far >= window)
    return (q @ k.mT / 4).masked_fill(hidden, -1e9).softmax(-1) @ v  # here


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.place = nn.Embedding(9, 16)

    def forward(self, x):
        return attend(*self.qkv(x + self.place.weight[: x.shape[1]]).chunk(3, dim=-1), window=3)


model = Model().eval()
inputs = torch.randn(2, 7, 16)
"""


def test_an_argument_that_a_function_never_reads(tmp_path: Path) -> None:
    unread = FUNCTION.format(reads="False").replace("(far >= window)", "hidden")
    finding = the_finding(tmp_path, unread)
    assert finding.evidence == {"argument": "window", "function": "attend", "reads": 0}
    assert codes(tmp_path, FUNCTION.format(reads="window is not None")) == []


def test_an_argument_that_is_not_given_and_would_not_be_read_is_a_note(tmp_path: Path) -> None:
    unread = FUNCTION.format(reads="window is not None").replace("causal=False", "lengths=None")
    finding = the_finding(tmp_path, unread)
    assert (finding.code, finding.severity) == ("AS208", "note")
    assert "takes lengths and never reads it" in finding.message


def test_a_mask_that_is_applied_another_way_is_no_ignored_one(tmp_path: Path) -> None:
    program = """
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x, bias, keep):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            return (q @ k.mT / 4 + bias).softmax(-1) @ v


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = Attention()

        def forward(self, x, keep):
            bias = torch.zeros(keep.shape).masked_fill(SHOWN, -1e9)[:, None, :]
            return self.attention(x, bias, keep)


    model = Encoder().eval()
    inputs = {"x": torch.randn(2, 6, 16), "keep": torch.arange(6) < torch.tensor([[6], [3]])}
    expect = {"padding": "keep keep", "positions": False}
    """
    assert codes(tmp_path, program.replace("SHOWN", "~keep")) == []


def test_declared_padding_that_leaks_is_said_once(tmp_path: Path) -> None:
    program = """
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x, valid):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            return F.scaled_dot_product_attention(q, k, v)


    model = Encoder().eval()
    inputs = {"x": torch.randn(2, 6, 16), "valid": torch.arange(6) < torch.tensor([[6], [3]])}
    expect = {"padding": "valid keep"}
    """
    assert codes(tmp_path, program) == ["AS202"]


LIBRARY = """
from transformers import AttentionInterface, LlamaConfig, LlamaModel


def attend(module, q, k, v, attention_mask, scaling, **rest):
    k, v = (t.repeat_interleave(2, 1) for t in (k, v))
    hidden = torch.ones(q.shape[2], q.shape[2]).triu(1).bool(){more}
    weights = (q @ k.mT * scaling).masked_fill(hidden, -1e9).softmax(-1)  # here
    return (weights @ v).transpose(1, 2).contiguous(), weights


AttentionInterface.register("own", attend)
sizes = dict(hidden_size=16, intermediate_size=8, num_attention_heads=4, num_key_value_heads=2)
model = LlamaModel(
    LlamaConfig(vocab_size=30, num_hidden_layers=1, attn_implementation="own", **sizes)
).eval()
keep = torch.arange(7) < torch.tensor([[7], [4]])
inputs = {{"input_ids": torch.arange(14).view(2, 7), "attention_mask": keep.long()}}
"""


def test_an_own_function_in_a_librarys_model(tmp_path: Path) -> None:
    report = checked(tmp_path, LIBRARY.format(more=""), ("AS208",))
    assert [(each.code, each.severity) for each in report.findings] == [("AS208", "warning")]
    assert report.findings[0].source is not None
    assert report.findings[0].source.code.endswith("# here")


def test_hints_that_a_librarys_model_leaves_unread(tmp_path: Path) -> None:
    program = """
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    inputs = {"src": torch.randn(2, 5, 16), "src_mask": hidden, "is_causal": True}
    """
    assert codes(tmp_path, program) == []


UNREAD = """
class Captions(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.own = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, decoder_x, input_ids, attention_mask):
        {body}
        return self.own(decoder_x, decoder_x, decoder_x)[0] + told


model = Captions().eval()
inputs = {{
    "decoder_x": torch.randn(2, 7, 16),
    "input_ids": torch.randint(1, 9, (2, 11)),
    "attention_mask": (torch.arange(11) < torch.tensor([11, 8])[:, None]).long(),
}}
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("self.kept = (input_ids, attention_mask); told = 0.0", []),
        ("told = (input_ids / 9).mean(1)[:, None, None]", ["AS208"]),
    ],
)
def test_the_padding_of_what_nobody_reads(tmp_path: Path, body: str, told: list[str]) -> None:
    report = found(tmp_path, UNREAD.format(body=body), "AS208")
    assert [code for code, severity, _ in report if severity != "note"] == told


BLENDED = """
import torch
from torch import nn


class Blended(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.share = 0.0

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(mask[:, None], -1e9)
        return x + self.share * (scores.softmax(-1) @ v)


torch.manual_seed(0)
model = Blended().eval()
mask = torch.arange(7)[None] >= torch.tensor([[7], [4], [5]])
inputs = {"x": torch.randn(3, 7, 16), "mask": mask}
"""


def test_attention_that_reads_it_and_is_not_heard_yet(tmp_path: Path) -> None:
    assert "AS208" not in codes(tmp_path, BLENDED)
