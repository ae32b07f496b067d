"""AS201: prefixes, decoders, functions, packed rows, and parts that can't be looked into."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnscope
from tests.checks.marks import marked
from tests.checks.rules import by_future
from tests.checks.rules.by_future import (
    CAUSAL,
    ByHand,
    NoMask,
    OneTooFar,
    Right,
    features,
    found,
    line,
    only,
)

# -- prefixes, padding, memories -----------------------------------------------------------------


class Prefixed(ByHand):
    def forward(self, x: Tensor, prefix: int) -> Any:  # type: ignore[override]
        self.prefix = prefix
        return super().forward(x)

    def hidden(self, scores: Tensor) -> Tensor:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        seen[:, : self.prefix] = True
        return scores.masked_fill(~seen, -math.inf)


def test_a_declared_prefix_may_see_itself_both_ways() -> None:
    inputs = {"x": features(), "prefix": 4}
    assert not found(Prefixed(), inputs, {"causal": True, "prefix": "prefix"})
    assert not found(Prefixed(), inputs, {"causal": True, "prefix": 4})
    assert only(Prefixed(), inputs, CAUSAL).evidence["key"] == 3
    assert only(Prefixed(), inputs, {"causal": True, "prefix": 3}).evidence["query"] == 0


def test_rows_of_padding_that_nobody_reads_may_see_anything() -> None:
    class LeftPadded(ByHand):
        def forward(self, x: Tensor, mask: Tensor) -> Any:  # type: ignore[override]
            self.mask = mask
            return super().forward(x)

        def hidden(self, scores: Tensor) -> Tensor:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            seen = seen & self.mask[:, None, None, :].bool()
            return scores.masked_fill(~seen, torch.finfo(scores.dtype).min)

    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, :3] = 0
    expect = {"causal": True, "padding": "mask keep"}
    assert not found(LeftPadded(), {"x": features(), "mask": mask}, expect)


class Translator(nn.Module):
    def __init__(self, *, masked: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.model = nn.Transformer(24, 3, 1, 1, 32, dropout=0.0, batch_first=True)
        self.masked = masked

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]) if self.masked else None
        return self.model(src, tgt, tgt_mask=mask)  # the translator


@pytest.mark.parametrize("length", [7, 9], ids=["other lengths", "one length"])
def test_in_an_encoder_decoder_it_is_the_decoders_own_sequence(length: int) -> None:
    inputs = {"src": features(9), "tgt": features(length)}
    assert not found(Translator(masked=True), inputs, CAUSAL)
    finding = only(Translator(masked=False), inputs, CAUSAL)
    assert finding.module == "model.decoder.layers.0.self_attn"


def test_functions_of_q_k_and_v() -> None:
    def right(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def wrong(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)  # the function

    inputs = tuple(torch.randn(2, 3, 9, 8) for _ in range(3))
    assert attnscope.check(right, inputs, expect=CAUSAL, select=["AS201"]).ok
    (finding,) = attnscope.check(wrong, inputs, expect=CAUSAL, select=["AS201"]).findings
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "the function")


# -- what says that a model is causal ------------------------------------------------------------


def test_the_code_itself_says_that_it_is_causal() -> None:
    class WithTable(NoMask):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.ones(16, 16).tril())

    assert "triangular mask" in only(WithTable(), features()).evidence["causal_because"]
    assert "triu" in only(OneTooFar(), features()).evidence["causal_because"]

    class CausalAttention(NoMask):
        pass

    assert "CausalAttention" in only(CausalAttention(), features()).evidence["causal_because"]


def test_code_that_does_not_run_says_nothing() -> None:
    class Optional(ByHand):
        def hidden(self, scores: Tensor) -> Tensor:
            if self.heads > 99:
                return scores + torch.full(scores.shape[-2:], -math.inf).triu(1)
            return scores

    assert not found(Optional(), features())


def test_a_window_to_both_sides_is_not_causal() -> None:
    class Near(ByHand):
        def hidden(self, scores: Tensor) -> Tensor:
            near = (
                torch.ones(scores.shape[-2:], dtype=torch.bool).tril(self.heads).triu(-self.heads)
            )
            return scores.masked_fill(~near, -math.inf)

    assert not found(Near(), features())


def test_an_argument_named_after_causality_goes_before_a_mask_that_is_none() -> None:
    class InTraining(NoMask):
        def forward(self, x: Tensor) -> Any:
            q, k, v = x[:, None], x[:, None], x[:, None]
            y = F.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=None,
                is_causal=self.training,  # in training
            )
            return y[:, 0]

    finding = only(InTraining().eval(), features(), CAUSAL)
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "in training")


# -- half types ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_rounding_of_half_types_hides_no_leak_and_makes_none(kind: torch.dtype) -> None:
    finding = only(NoMask().to(kind), features().to(kind), CAUSAL)
    assert finding.source is not None
    assert finding.source.line == marked(by_future.__file__, "the softmax")
    assert not found(Right().to(kind), features().to(kind), CAUSAL)


class Packed(nn.Module):
    """Documents are kept apart, and nothing else: what is missing is where the mask is applied."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.causal = causal
        self.tokens, self.qkv = nn.Embedding(40, 24), nn.Linear(24, 72)

    def forward(self, ids: Tensor, documents: Tensor) -> Any:
        b, t = ids.shape
        q, k, v = self.qkv(self.tokens(ids)).view(b, t, 3, 3, 8).permute(2, 0, 3, 1, 4)
        same = documents[:, None, :, None] == documents[:, None, None, :]
        same = same & torch.ones(t, t, dtype=torch.bool).tril() if self.causal else same
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=same)  # applied
        return y.transpose(1, 2).reshape(b, t, -1)


def test_a_mask_of_documents_is_not_blamed_for_the_order() -> None:
    inputs = {
        "ids": torch.arange(18).view(2, 9),
        "documents": torch.tensor([[0] * 4 + [1] * 5] * 2),
    }
    assert line(Packed(causal=False), inputs) == marked(__file__, "applied")
    assert not found(Packed(causal=True), inputs, CAUSAL)


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:  # noqa: FBT001, FBT002  as kernels have it
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


class LeavesOut(nn.Module):
    def __init__(self, *, told: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.told, self.qkv = told, nn.Linear(24, 72)

    def forward(self, x: Tensor) -> Any:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 3, 8).permute(2, 0, 3, 1, 4)
        y = attend(q, k, v, causal=True) if self.told else attend(q, k, v)  # left out
        return y.transpose(1, 2).flatten(2)


def test_who_leaves_out_the_argument_is_named() -> None:
    assert line(LeavesOut(told=False), features()) == marked(__file__, "left out")
    assert not found(LeavesOut(told=True), features(), CAUSAL)


class Windows(nn.Module):
    """Every second layer has a window, made at a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Windowed(window=w) for w in (3, None, 3))

    def forward(self, x: Tensor) -> Any:
        for layer in self.layers:
            x = x + layer(x)
        return x


class Windowed(nn.Module):
    def __init__(self, *, window: int | None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.window, self.qkv = window, nn.Linear(24, 72)

    def forward(self, x: Tensor) -> Any:
        t = x.shape[1]
        q, k, v = self.qkv(x).view(x.shape[0], t, 3, 3, 8).permute(2, 0, 3, 1, 4)
        back = torch.arange(t)[:, None] - torch.arange(t)
        seen = back >= 0
        if self.window is not None:
            seen = back.abs() < self.window  # both sides
        return F.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).flatten(2)


def test_a_mask_of_a_line_that_right_layers_do_not_run_is_at_fault_itself() -> None:
    assert line(Windows(), features()) == marked(__file__, "both sides")


class OneScore(nn.Module):
    """Returns one number a token, by questions that read answers: both go along in time."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.answers, self.questions = nn.Embedding(30, 24), nn.Embedding(20, 24)
        self.attention = nn.MultiheadAttention(24, 3, batch_first=True)
        self.out, self.causal = nn.Linear(24, 1), causal

    def forward(self, x: Tensor, question_ids: Tensor) -> Any:
        later = (
            torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if self.causal else None
        )
        x, e = self.answers(x), self.questions(question_ids)
        return self.out(self.attention(e, x, x, attn_mask=later)[0]).squeeze(-1)  # one score


def test_one_number_a_token_and_two_sequences_in_step() -> None:
    ids = torch.randint(1, 20, (3, 9), generator=torch.Generator().manual_seed(0))
    inputs = {"x": ids, "question_ids": ids.flip(0)}
    assert line(OneScore(causal=False), inputs) == marked(__file__, "one score")
    assert not found(OneScore(causal=True), inputs, CAUSAL)


class Captions(nn.Module):
    """Pictures come first among the inputs; the outputs are those of the words."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.patch, self.words, self.qkv = nn.Linear(6, 24), nn.Embedding(30, 24), nn.Linear(24, 72)
        self.causal = causal

    def forward(self, patches: Tensor, words: Tensor) -> Any:
        x = torch.cat([self.patch(patches), self.words(words)], 1)
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 3, 8).permute(2, 0, 3, 1, 4)
        of_picture = torch.arange(x.shape[1]) < patches.shape[1]
        seen = of_picture[:, None] & of_picture
        seen = seen | torch.ones_like(seen).tril() if self.causal else seen | ~of_picture[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return y.transpose(1, 2).flatten(2)[:, patches.shape[1] :]


def test_the_sequence_is_the_one_whose_tokens_come_out() -> None:
    inputs = {"patches": features(5, 6), "words": torch.arange(16).view(2, 8)}
    assert only(Captions(causal=False), inputs, CAUSAL).message.startswith("changing words")
    assert not found(Captions(causal=True), inputs, CAUSAL)


@torch.jit.script
def scripted(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.transpose(1, 2), -1) @ x


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.inner, self.out = Inner(), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Any:
        return self.out(self.inner(x))  # scripted


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return scripted(x)


def test_attention_that_cannot_be_looked_into_is_told_where_it_is_called() -> None:
    finding = only(Scripted(), features(), CAUSAL)
    assert finding.module == "inner"
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "scripted")
