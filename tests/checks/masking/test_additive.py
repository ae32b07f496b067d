"""Attention by additive scores, of which no call is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, reported

TAGGER = """
class Tagger(nn.Module):
    def __init__(self, d=12, a=8):
        super().__init__()
        self.words = nn.Embedding(30, d)
        self.places = nn.Embedding(20, d)
        self.ask, self.tell = nn.Linear(d, a), nn.Linear(d, a)
        self.v = nn.Linear(a, 1)

    def forward(self, tokens, mask):
        h = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        e = self.v(torch.tanh(self.ask(h)[:, :, None] + self.tell(h)[:, None])).squeeze(-1)
        {body}
        return h + w @ h


model = Tagger().eval()
mask = torch.ones(3, 7, dtype=torch.bool)
mask[1, 5:], mask[2, 3:] = False, False
inputs = {{"tokens": (torch.arange(21).view(3, 7) % 29 + 1) * mask, "mask": mask}}
{expect}
"""
GRAPH = """
class Graph(nn.Module):
    def __init__(self, d=12, heads=2):
        super().__init__()
        self.w = nn.Linear(d, d)
        self.a = nn.Parameter(torch.randn(2, heads, d // heads))

    def forward(self, x, edges):
        h = self.w(x).unflatten(-1, self.a.shape[1:])
        e = (h * self.a[0]).sum(-1)[:, :, None] + (h * self.a[1]).sum(-1)[:, None]
        {body}
        return torch.einsum("bijh,bjhd->bihd", w, h).flatten(2)


model = Graph().eval()
inputs = {{"x": torch.randn(3, 6, 12), "edges": torch.rand(3, 6, 6) + torch.eye(6) > 0.5}}
"""
RULES = ("AS101", "AS102", "AS201", "AS202", "AS204", "AS205", "AS208")
CAUSAL = 'expect = {"causal": True}'
BOTH = "e.masked_fill(torch.ones(7, 7).triu({}).bool() | ~mask[:, None], -1e9)"


@pytest.mark.parametrize(
    ("body", "code", "expect"),
    [
        ("w = e.masked_fill(~mask[:, :, None], -1e9).softmax(-1)  # here", "AS202", ""),
        ("w = e.masked_fill(mask[:, None], -1e9).softmax(-1)  # here", "AS205", ""),
        ("w = e.softmax(-1)  # here", "AS208", ""),
        ("w = e.masked_fill(~mask[:, None], -1e9).softmax(1)  # here", "AS101", ""),
        ("w = e.softmax(-1) * mask[:, None]  # here", "AS204", ""),
        ("w = e.masked_fill(~mask[:, None], -1e9).softmax(-1)  # here", "AS201", CAUSAL),
        (
            f"e = {BOTH.format(2)}  # here\n        w = e.softmax(-1)",
            "AS201",
            CAUSAL,
        ),
    ],
)
def test_what_is_wrong_is_found_at_its_line(
    tmp_path: Path, body: str, code: str, expect: str
) -> None:
    told = found(tmp_path, TAGGER.format(body=body, expect=expect), *RULES)
    assert [(each, here) for each, _, here in told] == [(code, True)]


@pytest.mark.parametrize(
    "body",
    [
        "w = e.masked_fill(~edges[..., None], -9e15).softmax(1)  # here",
        "w = e.masked_fill(~edges[..., None], -9e15).softmax(3)  # here",
    ],
)
def test_weights_that_do_not_sum_to_one_where_they_are_summed(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, GRAPH.format(body=body), *RULES) == [("AS101", "error", True)]


@pytest.mark.parametrize(
    ("body", "expect"),
    [
        ("w = e.masked_fill(~mask[:, None], -1e9).softmax(-1)", ""),
        ("w = (e + (mask[:, None].float() - 1) * 1e9).softmax(-1)", ""),
        ("w = e.softmax(-1) * mask[:, None]\n        w = w / w.sum(-1, keepdim=True)", ""),
        (f"w = {BOTH.format(1)}.softmax(-1)", CAUSAL),
    ],
)
def test_sound_ones_are_silent(tmp_path: Path, body: str, expect: str) -> None:
    assert found(tmp_path, TAGGER.format(body=body, expect=expect), *RULES) == []


def test_a_sound_graph_is_silent(tmp_path: Path) -> None:
    body = "w = e.masked_fill(~edges[..., None], -9e15).softmax(2)"
    assert found(tmp_path, GRAPH.format(body=body), *RULES) == []


def test_a_report_says_that_it_was_looked_at(tmp_path: Path) -> None:
    body = "w = e.masked_fill(~mask[:, None], -1e9).softmax(-1)"
    report = reported(tmp_path, TAGGER.format(body=body, expect=""), *RULES)
    assert any("additive scores" in note for note in report.notes)
