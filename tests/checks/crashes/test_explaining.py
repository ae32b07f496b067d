"""What PyTorch's words mean in an attention: each misuse by its kind, or as another rule's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import only

PROGRAM = """
class Attention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / 8**0.5
        y = scores.softmax(-1) @ v
        {statement}  # here
        return y


model = Attention().eval()
inputs = (torch.randn(3, 8, 32), torch.arange(8)[None] < torch.tensor([8, 5, 3])[:, None])
"""

KINDS = {
    "y = (scores[:, 0]).softmax(dim=3)": "axis",
    "y = self.out(y.permute(0, 2, 1).reshape(b, t, d))": "axis",
    "q, k, v = self.out(x).split(16, -1)": "axis",
    "b, h, t, d = q[0].shape": "axis",
    "y = torch.bmm(q, k.mT)": "axis",
    "y = self.norm(y)": "norm-width",
    "y = self.norm(x + self.mha(x, x, x))": "tuple",
    "y = q.reshape(b, t, self.heads, d / self.heads)": "split",
    "k = torch.cat([k, k[0]], 2)": "joining",
    "y = scores + (1 - mask)[:, None, None] * -1e9": "mask-type",
    "y = scores.masked_fill(~mask.float()[:, None, None], -1e9)": "mask-type",
    "y = scores if mask else y": "mask-type",
    "scores[torch.ones(2, 3).bool()] = -1e9": "mask-shape",
    "y = scores.masked_fill(torch.ones(t).tril() == 0, -1e9)": "mask-shape",
    "y = self.mha(x, x, x, key_padding_mask=torch.zeros(b, t, t).bool())": "mask-shape",
    "scores += torch.zeros(2, b, 4, t, t)": "sizes",
}


@pytest.mark.parametrize("statement", KINDS)
def test_a_misuse_is_told_by_its_kind(tmp_path: Path, statement: str) -> None:
    finding = only(tmp_path, PROGRAM.format(statement=statement))
    assert (finding.code, finding.evidence["kind"]) == ("AS105", KINDS[statement])
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize(
    "statement",
    [
        "y = self.mha(x, x, x, attn_mask=~mask)[0]",
        "y = self.mha(x, x, x, key_padding_mask=mask.mT)[0]",
        "y = scores.masked_fill(~mask, -1e9).softmax(-1) @ v",
        "y = scores.masked_fill(~mask[:, None], -1e9).softmax(-1) @ v",
        "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
        "y = scores + mask.float().log()",
        "scores[~mask] = -1e9",
    ],
)
def test_a_padding_mask_that_meets_queries_or_heads(tmp_path: Path, statement: str) -> None:
    finding = only(tmp_path, PROGRAM.format(statement=statement))
    assert finding.code == "AS211"
    assert "(batch, keys) = (3, 8)" in finding.message


def test_a_view_of_what_lies_apart(tmp_path: Path) -> None:
    finding = only(tmp_path, PROGRAM.format(statement="y = y.transpose(1, 2).view(b, t, d)"))
    assert finding.code == "AS106"
    assert finding.evidence["strides"] == [256, 8, 64, 1]
