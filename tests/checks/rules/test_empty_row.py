from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.masking.specimens import codes, the_finding

LEFT_PADDED = """
class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, attention_mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        n = x.shape[1]
        seen = torch.ones(n, n).tril().bool() & attention_mask.bool()[:, None, :]
        scores = (q @ k.mT / 4).masked_fill(~seen, {fill})  # here
        weights = scores.softmax(-1)
        {after}


model = Attention().eval()
mask = torch.tensor([[1] * 6, [0, 0, 1, 1, 1, 1]])
inputs = {{"x": torch.randn(2, 6, 16), "attention_mask": mask}}
expect = {{"causal": True, "padding": "attention_mask keep"}}
"""
INF = 'float("-inf")'


def test_a_padded_query_without_keys_is_nan(tmp_path: Path) -> None:
    finding = the_finding(tmp_path, LEFT_PADDED.format(fill=INF, after="return weights @ v"))
    assert (finding.code, finding.severity) == ("AS203", "warning")
    assert finding.evidence["gives"] == "nan"
    assert (finding.evidence["rows"], finding.evidence["sample"], finding.evidence["query"]) == (
        2,
        1,
        0,
    )
    assert finding.evidence["reaches"] == 32


@pytest.mark.parametrize(
    ("fill", "after"),
    [
        ("-1e9", "return weights @ v"),  # uniform, and nobody reads it
        (INF, "return weights.nan_to_num(0.0) @ v"),
        (INF, "return (weights @ v).masked_fill(attention_mask[..., None] == 0, 0.0)"),
    ],
)
def test_rows_that_nobody_reads_are_silent(tmp_path: Path, fill: str, after: str) -> None:
    assert codes(tmp_path, LEFT_PADDED.format(fill=fill, after=after)) == []


POOLING = """
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, 16))
        self.kv = nn.Linear(16, 32)

    def forward(self, items, n_items):
        k, v = self.kv(items).chunk(2, -1)
        real = torch.arange(items.shape[1]) < n_items[:, None]
        scores = (self.query @ k.mT).masked_fill(~real[:, None], torch.finfo(k.dtype).min)
        weights = scores.softmax(-1)  # here
        return (weights @ v)[:, 0]


model = Pool().eval()
inputs = {"items": torch.randn(3, 5, 16), "n_items": torch.tensor([5, NONE, 2])}
"""


def test_a_sample_without_anything_is_an_average_over_padding(tmp_path: Path) -> None:
    finding = the_finding(tmp_path, POOLING.replace("NONE", "0"))
    assert finding.evidence["gives"] == "uniform"
    assert finding.evidence["reaches"] == 1
    assert codes(tmp_path, POOLING.replace("NONE", "1")) == []


def test_a_triangle_that_hides_the_query_itself_is_shown_where_it_is_made(tmp_path: Path) -> None:
    program = """
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            hidden = torch.ones(x.shape[1], x.shape[1]).triu(0).bool()  # here
            scores = (q @ k.mT / 4).masked_fill(hidden, float("-inf"))
            return scores.softmax(-1) @ v


    model = Attention().eval()
    inputs = torch.randn(2, 6, 16)
    """
    assert the_finding(tmp_path, program).evidence["query"] == 0
    assert codes(tmp_path, program.replace("triu(0)", "triu(1)")) == []


def test_a_kernel_that_gives_zeros_is_silent(tmp_path: Path) -> None:
    program = """
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x, attention_mask):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            seen = torch.ones(6, 6).tril().bool() & attention_mask.bool()[:, None, :]
            return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


    model = Attention().eval()
    mask = torch.tensor([[1] * 6, [0, 0, 1, 1, 1, 1]])
    inputs = {"x": torch.randn(2, 6, 16), "attention_mask": mask}
    expect = {"causal": True, "padding": "attention_mask keep"}
    """
    assert codes(tmp_path, program) == []
