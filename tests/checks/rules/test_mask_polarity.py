from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.masking.specimens import codes, the_finding

ENCODER = """
class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(30, width, padding_idx=0), nn.Linear(width, 3 * width)
        self.layer = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, ids):
        pad = ids == 0
        x = self.embed(ids)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return {attend}  # here


model = Encoder().eval()
inputs = torch.randint(1, 30, (3, 7)) * (torch.arange(7) < torch.tensor([[6], [3], [5]]))
expect = {{"padding": "ids pad=0"}}
"""
WAYS = {
    "F.scaled_dot_product_attention(q, k, v, attn_mask=PAD[:, None, :])": ("pad", "~pad"),
    "self.layer(x, x, x, key_padding_mask=PAD, need_weights=False)[0]": ("~pad", "pad"),
    "(q @ k.mT).masked_fill(PAD[:, None, :], -1e9).softmax(-1) @ v": ("~pad", "pad"),
    "torch.where(PAD[:, None, :], q @ k.mT, -1e9).softmax(-1) @ v": ("pad", "~pad"),
    "(q @ k.mT + (PAD)[:, None, :].float() * -1e9).softmax(-1) @ v": ("~pad", "pad"),
}


@pytest.mark.parametrize("way", WAYS)
def test_only_padding_is_seen(tmp_path: Path, way: str) -> None:
    wrong, right = WAYS[way]
    finding = the_finding(tmp_path, ENCODER.format(attend=way.replace("PAD", wrong)))
    assert (finding.code, finding.severity) == ("AS205", "error")
    assert finding.evidence["visible_padded"] == 7 * 7
    assert finding.evidence["hidden_real"] == 7 * 14
    assert [each.code for each in finding.follows] == ["AS202"]
    assert codes(tmp_path, ENCODER.format(attend=way.replace("PAD", right))) == []


CAUSAL = """
class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).{mask}
        return {attend}  # here


model = Causal().eval()
inputs = torch.randn(2, 6, 16)
expect = {{"causal": {causal}}}
"""
SDPA = "F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"
FILL = "(q @ k.mT).masked_fill(mask, -1e9).softmax(-1) @ v"


@pytest.mark.parametrize(
    ("mask", "attend"),
    [("triu(1)", SDPA), ("triu(0)", SDPA), ("tril(-1)", FILL), ("tril(0)", FILL)],
)
def test_the_causal_mask_is_upside_down(tmp_path: Path, mask: str, attend: str) -> None:
    finding = the_finding(tmp_path, CAUSAL.format(mask=mask, attend=attend, causal=True))
    assert finding.code == "AS205"
    assert finding.evidence["visible_later"] == 2 * 15


@pytest.mark.parametrize(("mask", "attend"), [("tril(0)", SDPA), ("triu(1)", FILL)])
def test_the_causal_mask_as_it_should_be(tmp_path: Path, mask: str, attend: str) -> None:
    assert codes(tmp_path, CAUSAL.format(mask=mask, attend=attend, causal=True)) == []


def test_a_model_from_right_to_left_is_left_alone(tmp_path: Path) -> None:
    assert codes(tmp_path, CAUSAL.format(mask="triu(0)", attend=SDPA, causal=False)) == []


INTEGERS = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(16, 16), nn.Linear(16, 32)

    def forward(self, x, memory, memory_mask):
        q, (k, v) = self.q(x), self.kv(memory).chunk(2, dim=-1)
        hidden = {hidden}
        return (q @ k.mT).masked_fill(hidden[:, None, :], -1e9).softmax(-1) @ v  # here


model = Reader().eval()
mask = (torch.arange(7) < torch.tensor([[7], [4]])).long()
inputs = {{"x": torch.randn(2, 5, 16), "memory": torch.randn(2, 7, 16), "memory_mask": mask}}
expect = {{"padding": "memory_mask keep"}}
"""


def test_the_bitwise_opposite_of_integers_hides_all(tmp_path: Path) -> None:
    finding = the_finding(tmp_path, INTEGERS.format(hidden="(~memory_mask).bool()"))
    assert finding.code == "AS205"
    assert "-1 and -2" in finding.message
    assert codes(tmp_path, INTEGERS.format(hidden="~memory_mask.bool()")) == []


IN_FRONT = """
class Pooled(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True, {options})
        self.place = nn.Embedding(9, width)

    def forward(self, x, keep):
        x = x + self.place.weight[: x.shape[1]]
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
        drop = F.pad({drop}, (1, 0), value=False)
        return self.attention(x, x, x, key_padding_mask=drop, need_weights=False)[0][:, 0]  # here


model = Pooled().eval()
inputs = {{"x": torch.randn(3, 7, 16), "keep": torch.arange(7) < torch.tensor([[7], [4], [2]])}}
expect = {{"padding": "keep keep"}}
"""


@pytest.mark.parametrize("options", ["", "add_bias_kv=True, add_zero_attn=True"])
def test_keys_that_are_no_tokens_do_not_hide_it(tmp_path: Path, options: str) -> None:
    finding = the_finding(tmp_path, IN_FRONT.format(drop="keep", options=options))
    assert (finding.code, finding.evidence["sample"]) == ("AS205", 1)
    assert codes(tmp_path, IN_FRONT.format(drop="~keep", options=options)) == []


PAIRS = """
class Graph(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, visible):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return (q @ k.mT / 4).masked_fill({hidden}, -1e9).softmax(-1) @ v  # here


model = Graph().eval()
visible = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(0)) > 0.6
inputs = {{"x": torch.randn(2, 6, 16), "visible": visible | torch.eye(6, dtype=torch.bool)}}
expect = {{"positions": False}}
"""


def test_a_mask_of_pairs_against_its_own_name(tmp_path: Path) -> None:
    finding = the_finding(tmp_path, PAIRS.format(hidden="visible"))
    assert (finding.code, finding.evidence["input"]) == ("AS205", "visible")
    assert codes(tmp_path, PAIRS.format(hidden="~visible")) == []


STEPS = """
class Frames(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv, self.place = nn.Linear(width, 3 * width), nn.Embedding(12, width)

    def forward(self, x):
        q, k, v = self.qkv(x + self.place.weight).chunk(3, dim=-1)
        frame = torch.arange(12) // {size}
        shown = {shown}
        return F.scaled_dot_product_attention(q, k, v, attn_mask=shown)  # here


model = Frames().eval()
inputs = torch.randn(2, 12, 16)
"""


def test_a_mask_with_steps_is_upside_down_whatever_is_meant(tmp_path: Path) -> None:
    seen = "frame[:, None] >= frame"
    finding = the_finding(tmp_path, STEPS.format(size=4, shown=f"~({seen})"))
    assert finding.code == "AS205"
    assert codes(tmp_path, STEPS.format(size=4, shown=seen)) == []
    ahead = "frame[:, None] <= frame"  # backwards, with the frame itself
    assert codes(tmp_path, STEPS.format(size=4, shown=ahead)) == []
    others = "frame[:, None] != frame"  # none sees itself, and all see something
    assert codes(tmp_path, STEPS.format(size=4, shown=others)) == []


PIXELS = """
class Detector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body, self.asks = nn.Conv2d(3, width, 2, 2), nn.Parameter(torch.randn(5, width))

    def forward(self, pictures, padding):
        x = self.body(pictures).flatten(2).mT
        padded = padding[:, ::2, ::2].flatten(1)[:, None]
        scores = self.asks @ x.mT / 4
        return scores.masked_fill({hidden}, -1e9).softmax(-1) @ x  # here


model = Detector().eval()
padding = torch.zeros(2, 8, 12, dtype=torch.bool)
padding[0, :, 6:] = padding[1, 4:] = True
inputs = {{"pictures": torch.randn(2, 3, 8, 12), "padding": padding}}
expect = {{"padding": "padding {meaning}"}}
"""


@pytest.mark.parametrize(("meaning", "right"), [("drop", "padded"), ("keep", "~padded")])
def test_a_mask_of_pixels(tmp_path: Path, meaning: str, right: str) -> None:
    wrong = right[1:] if right.startswith("~") else f"~{right}"
    finding = the_finding(tmp_path, PIXELS.format(hidden=wrong, meaning=meaning))
    assert finding.code == "AS205"
    assert codes(tmp_path, PIXELS.format(hidden=right, meaning=meaning)) == []
