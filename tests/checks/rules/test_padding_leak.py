from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.masking.specimens import codes, the_finding

ENCODER = """
class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(2, 3) / (w // self.heads) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, vocab=40, width=24, heads=3):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocab, width, padding_idx=0), nn.Embedding(20, width)
        self.attention, self.head = Attention(width, heads), nn.Linear(width, 5)

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight[: ids.shape[1]]
        {apply}
        {end}


model = Encoder().eval()
lengths = torch.tensor([[9], [4], [6]])
inputs = torch.randint(1, 40, (3, 9)) * (torch.arange(9) < lengths)
expect = {{"padding": "ids pad=0"}}
"""
HANDED_ON = "x = x + self.attention(x, (ids == 0)[:, None, None, :])"
EACH = "return self.head(x)"


def encoder(apply: str, end: str = EACH) -> str:
    return ENCODER.format(apply=apply, end=end)


def test_a_mask_that_is_left_out_is_shown_at_the_call_that_leaves_it_out(tmp_path: Path) -> None:
    finding = the_finding(tmp_path, encoder("x = x + self.attention(x)  # here"))
    assert (finding.code, finding.severity) == ("AS202", "error")
    assert finding.evidence["padded"] == 8
    assert finding.evidence["moved"] == 10  # the real tokens of the two samples with padding
    assert finding.evidence["largest"] > 1e-3
    assert finding.evidence["weight_on_padding"] > 0.01
    assert "mask is left out here" in finding.message


def test_a_mask_on_the_query_axis_is_shown_where_it_is_made(tmp_path: Path) -> None:
    finding = the_finding(
        tmp_path,
        encoder("x = x + self.attention(x, (ids == 0)[:, None, :, None])  # here").replace(
            'float("-inf")', "-1e4"
        ),
    )
    assert finding.code == "AS202"


def test_a_length_that_counts_one_too_many_leaks_one_key(tmp_path: Path) -> None:
    made = "pad = torch.arange(ids.shape[1]) > (ids > 0).sum(1, keepdim=True)  # here\n"
    use = "        x = x + self.attention(x, pad[:, None, None, :])"
    finding = the_finding(tmp_path, encoder(made + use))
    assert finding.evidence["moved"] == 10


def test_a_mean_over_all_positions_is_shown_at_the_mean(tmp_path: Path) -> None:
    finding = the_finding(tmp_path, encoder(HANDED_ON, "return self.head(x.mean(1))  # here"))
    assert "attention keeps them apart" in finding.message
    assert finding.evidence["moved"] == 2


def test_padding_that_is_multiplied_by_zero_still_takes_its_share(tmp_path: Path) -> None:
    program = """
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, query, memory, memory_valid):
            memory = memory * memory_valid.unsqueeze(-1)
            return self.attention(query, memory, memory, need_weights=False)[0]  # here


    model = Reader().eval()
    inputs = {"query": torch.randn(2, 5, 16), "memory": torch.randn(2, 7, 16),
              "memory_valid": torch.arange(7) < torch.tensor([[7], [3]])}
    expect = {"padding": "memory_valid keep"}
    """
    finding = the_finding(tmp_path, program)
    assert finding.message.startswith("without the keys of 4 padded positions")
    assert finding.evidence["moved"] == 5


@pytest.mark.parametrize("library", ["src_key_padding_mask=mask, tgt_mask=causal"])
def test_memory_padding_of_an_encoder_decoder(tmp_path: Path, library: str) -> None:
    program = f"""
    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(30, 16, padding_idx=0)
            self.core = nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True)

        def forward(self, src, tgt):
            mask = src == 0
            causal = torch.ones(tgt.shape[1], tgt.shape[1]).triu(1).bool()
            return self.core(self.embed(src), self.embed(tgt), {library})  # here


    model = Translator().eval()
    model.core.encoder.use_nested_tensor = False
    inputs = {{"src": torch.randint(1, 30, (2, 8)), "tgt": torch.randint(1, 30, (2, 5))}}
    inputs["src"][1, 5:] = 0
    expect = {{"padding": "src pad=0", "causal": True}}
    """
    assert "memory_key_padding_mask" in the_finding(tmp_path, program).fix
    assert (
        codes(tmp_path, program.replace("tgt_mask", "memory_key_padding_mask=mask, tgt_mask")) == []
    )


def test_left_padding_reaches_a_causal_model(tmp_path: Path) -> None:
    program = """
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.qkv = nn.Embedding(30, 16), nn.Linear(16, 48)

        def forward(self, input_ids):
            q, k, v = self.qkv(self.embed(input_ids)).chunk(3, -1)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)  # here


    model = Decoder().eval()
    inputs = torch.randint(1, 30, (2, 8))
    inputs[1, :3] = 0
    expect = {"padding": "input_ids pad=0", "causal": True}
    """
    assert the_finding(tmp_path, program).evidence["moved"] == 5
    assert codes(tmp_path, program.replace("[1, :3]", "[1, 5:]")) == []  # on the right it can't


@pytest.mark.parametrize(
    "end",
    [
        EACH,
        "return self.head(x[:, 0])",
        "keep = (ids != 0)[..., None]; return self.head((x * keep).sum(1) / keep.sum(1))",
        "return self.head(x[torch.arange(len(ids)), (ids != 0).sum(1) - 1])",
    ],
)
def test_masked_padding_is_silent(tmp_path: Path, end: str) -> None:
    assert codes(tmp_path, encoder(HANDED_ON, end)) == []


def test_a_large_finite_fill_hides_well_enough(tmp_path: Path) -> None:
    assert codes(tmp_path, encoder(HANDED_ON).replace('float("-inf")', "-1e4")) == []


def test_a_convolution_may_mix_at_the_border(tmp_path: Path) -> None:
    end = (
        "x = F.conv1d(x.mT, torch.ones(24, 1, 3) / 3, padding=1, groups=24).mT; return self.head(x)"
    )
    assert codes(tmp_path, encoder(HANDED_ON, end)) == []


def test_without_padding_or_a_word_about_it_nothing_is_checked(tmp_path: Path) -> None:
    full = encoder("x = x + self.attention(x)").replace("* (torch.arange(9) < lengths)", "")
    assert codes(tmp_path, full) == []


SCORER = """
class Scorer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.tokens, self.place = nn.Embedding(30, width), nn.Embedding(9, width)
        self.qkv, self.score = nn.Linear(width, 3 * width), nn.Linear(width, 1)

    def forward(self, ids, keep):
        x = self.tokens(ids) + self.place.weight[: ids.shape[1]]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, :])
        kept = keep[..., None].float()
        pooled = {pooled}  # here
        return self.score(pooled).squeeze(-1)


model = Scorer().eval()
keep = torch.arange(6) < torch.tensor([[6], [4], [3]])
inputs = {{"ids": torch.randint(30, (3, 6)), "keep": keep}}
expect = {{"padding": "keep keep"}}
"""


def test_one_number_a_sample_that_follows_its_padding(tmp_path: Path) -> None:
    finding = the_finding(tmp_path, SCORER.format(pooled="y.mean(1)"))
    assert (finding.code, finding.evidence["moved"]) == ("AS202", 2)
    assert codes(tmp_path, SCORER.format(pooled="(y * kept).sum(1) / kept.sum(1)")) == []
