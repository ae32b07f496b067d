from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.masking.specimens import codes, the_finding

FOLDED = """
class Attention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, drop):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).flatten(1, 2)
        mask = drop[:, None, :].expand(b, n, n)
        mask = mask.{tiled}
        scores = torch.bmm(q, k.mT).masked_fill(mask, -1e9)
        context = torch.bmm(scores.softmax(-1), v).view(b, self.heads, n, -1)
        return context.transpose(1, 2).flatten(2)


model = Attention().eval()
inputs = {{"x": torch.randn(3, 7, 16), "drop": torch.arange(7) >= torch.tensor([[7], [3], [5]])}}
expect = {{"padding": "drop drop"}}
"""


@pytest.mark.parametrize("tiled", ["repeat(self.heads, 1, 1)", "tile(self.heads, 1, 1)"])
def test_heads_of_other_samples_get_the_mask(tmp_path: Path, tiled: str) -> None:
    finding = the_finding(tmp_path, FOLDED.format(tiled=f"{tiled}  # here"))
    assert (finding.code, finding.severity) == ("AS211", "error")
    assert finding.evidence["batch"] == 3
    assert finding.evidence["own_heads_unmoved"] == [1]
    assert [1, 1] in finding.evidence["other_rows"]
    assert "AS202" in {each.code for each in finding.follows}


@pytest.mark.parametrize(
    ("tiled", "right"), [("repeat(self.heads, 1, 1)", False), ("repeat_interleave(2, 0)", True)]
)
def test_a_mask_that_is_made_of_groups(tmp_path: Path, tiled: str, *, right: bool) -> None:
    text = FOLDED.format(tiled=tiled).replace("x, drop)", "x, group)")
    text = text.replace("drop[:, None, :].expand(b, n, n)", "group[:, None] != group[:, :, None]")
    text = text[: text.index("inputs = ")] + (
        "group = torch.tensor([[0] * 7, [0, 0, 1, 1, 1, 2, 2], [0, 1] * 3 + [2]])\n"
        'inputs = {"x": torch.randn(3, 7, 16), "group": group}\n'
    )
    assert codes(tmp_path, text) == ([] if right else ["AS211"])


def test_heads_of_a_sample_next_to_each_other(tmp_path: Path) -> None:
    assert codes(tmp_path, FOLDED.format(tiled="repeat_interleave(self.heads, 0)")) == []


BROADCAST = """
class Attention(nn.Module):
    def __init__(self, width=16, heads={heads}):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, keep):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep{axes})  # here


model = Attention().eval()
batch, length = {batch}, 8
lengths = torch.tensor([8, 3, 5, 6, 8, 2, 4, 7])[:batch, None]
inputs = {{"x": torch.randn(batch, length, 16), "keep": torch.arange(length) < lengths}}
expect = {{"padding": "keep keep", "batch_axis": 0}}
"""


@pytest.mark.parametrize(
    ("heads", "batch", "axes"),
    [(4, 4, "[:, None, :]"), (2, 8, "")],
    ids=["batch meets heads", "batch meets queries"],
)
def test_sizes_that_agree_by_chance(tmp_path: Path, heads: int, batch: int, axes: str) -> None:
    finding = the_finding(tmp_path, BROADCAST.format(heads=heads, batch=batch, axes=axes))
    assert finding.code == "AS211"
    right = BROADCAST.format(heads=heads, batch=batch, axes="[:, None, None, :]")
    assert codes(tmp_path, right) == []


def test_one_mask_for_all_samples_is_silent(tmp_path: Path) -> None:
    program = BROADCAST.format(heads=2, batch=4, axes=".any(0).expand(length, length)")
    program = program.replace("return F", "length = n\n        return F")
    assert "AS211" not in codes(tmp_path, program)


BIASED = """
class Attention(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).flatten(1, 2)
        far = torch.arange(n)[:, None] - torch.arange(n)
        slopes = 2.0 ** -torch.arange(1.0, self.heads + 1)
        bias = -slopes[:, None, None] * far.abs()
        bias = bias.{tiled}  # here
        scores = torch.bmm(q, k.mT) / 2 + bias
        context = torch.bmm(scores.softmax(-1), v).view(b, self.heads, n, -1)
        return context.transpose(1, 2).flatten(2)


model = Attention().eval()
inputs = torch.randn(3, 6, 16)
"""


def test_a_bias_of_other_heads_in_the_batch_than_alone(tmp_path: Path) -> None:
    finding = the_finding(tmp_path, BIASED.format(tiled="repeat_interleave(b, 0)"))
    assert (finding.code, finding.evidence["all_rows"]) == ("AS211", 4)
    assert finding.evidence["rows"] == 3
    assert codes(tmp_path, BIASED.format(tiled="repeat(b, 1, 1)")) == []


WINDOWS = """
class Windows(nn.Module):
    def __init__(self, width=16, side=4):
        super().__init__()
        self.side = side
        self.place = nn.Embedding(12, width)
        self.qkv = nn.Linear(width, 3 * width)
        group = torch.tensor([[0, 0, 0, 0], [1, 1, 2, 2], [3, 4, 4, 4]])
        self.register_buffer("mask", (group[:, None] != group[:, :, None]).float() * -100)

    def forward(self, x):
        b, n, w = x.shape
        x = x + self.place.weight
        q, k, v = self.qkv(x).view(-1, self.side, 3 * w).chunk(3, dim=-1)
        scores = (q @ k.mT / 4).view({shape}, self.side, self.side)
        scores = scores + self.mask.unsqueeze({axis})  # here
        return (scores.view(-1, self.side, self.side).softmax(-1) @ v).reshape(b, n, w)


model = Windows().eval()
inputs = torch.randn(2, 12, 16)
"""


def test_masks_of_windows_in_the_order_of_the_batch(tmp_path: Path) -> None:
    finding = the_finding(tmp_path, WINDOWS.format(shape="3, -1", axis=1))
    assert (finding.code, finding.evidence["batch"]) == ("AS211", 6)
    assert codes(tmp_path, WINDOWS.format(shape="-1, 3", axis=0)) == []


BY_PLACE = """
class Attention(nn.Module):
    def __init__(self, width=24, heads={heads}):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.own = nn.Parameter(torch.linspace(0.5, 2.0, heads))
        self.register_buffer("slopes", 2.0 ** -torch.arange(1.0, heads + 1))

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        apart = torch.arange(n)[None] - torch.arange(n)[:, None]
        {joins}
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, w)


model = Attention().eval()
inputs = torch.randn({batch}, 7, 24)
expect = {{"batch_axis": 0}}
"""

JOINS = (
    "scores = scores * self.own.view({axes})",
    "scores = scores - self.slopes.view({axes}) * apart.abs()",
    "v = v * self.own.sigmoid().view({axes})",
)


@pytest.mark.parametrize("joins", JOINS)
def test_what_each_head_has_meets_samples(tmp_path: Path, joins: str) -> None:
    wrong = joins.format(axes="-1, 1, 1, 1") + "  # here"
    finding = the_finding(tmp_path, BY_PLACE.format(heads=3, batch=3, joins=wrong))
    assert (finding.code, finding.severity) == ("AS211", "error")
    assert finding.evidence["axis_of_samples"] == 0
    assert finding.evidence["moved"] > 1e-3
    assert finding.source is not None
    assert finding.source.code.endswith("# here")
    right = joins.format(axes="1, -1, 1, 1")
    assert codes(tmp_path, BY_PLACE.format(heads=3, batch=3, joins=right)) == []


@pytest.mark.parametrize(
    "joins",
    [
        "scores = scores + torch.randn(b, self.heads, n, n)",
        "scores = scores + torch.full((b, 1, 1, n), -0.5)",
    ],
    ids=["noise", "the same for all"],
)
def test_what_is_drawn_or_the_same_for_all_samples(tmp_path: Path, joins: str) -> None:
    program = BY_PLACE.format(heads=3, batch=3, joins=joins)
    assert "AS211" not in codes(tmp_path, program)
