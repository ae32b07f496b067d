"""AS212: what is hidden though it should be seen, and what is hidden on purpose."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.checks.finding import Finding
from tests.checks.marks import marked

BOTH_WAYS = {"causal": False}


def found(model: Any, inputs: Any, expect: dict[str, Any] | None = None) -> list[Finding]:
    report = attnscope.check(model.eval(), inputs, expect=expect, select=["AS212"])
    assert not [each for each in report.rules_skipped if each.failed]
    return list(report.findings)


def features(length: int = 8, batch: int = 3) -> Tensor:
    return torch.randn(batch, length, 24, generator=torch.Generator().manual_seed(0))


class ByHand(nn.Module):
    def __init__(self, *, shared: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.shared = shared
        self.q, self.k, self.v, self.out = (nn.Linear(24, 24) for _ in range(4))

    def seen(self, length: int, _lengths: Tensor | None) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Any:
        b, t, c = x.shape
        k, v = (each(x).view(b, t, 3, -1).transpose(1, 2) for each in (self.k, self.v))
        q = k if self.shared else self.q(x).view(b, t, 3, -1).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(8)
        scores = scores.masked_fill(~self.seen(t, lengths), torch.finfo(x.dtype).min)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Causal(ByHand):
    def seen(self, length: int, _lengths: Tensor | None) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool).tril()  # causal


class Near(ByHand):
    def seen(self, length: int, _lengths: Tensor | None) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool).tril(1).triu(-1)


class Strict(ByHand):
    def seen(self, length: int, _lengths: Tensor | None) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool).tril(-1)  # strict


class Lengths(ByHand):
    def seen(self, length: int, _lengths: Tensor | None) -> Tensor:
        assert _lengths is not None
        return (torch.arange(length) < _lengths[:, None])[:, None, None]


class OneShort(ByHand):
    def seen(self, length: int, _lengths: Tensor | None) -> Tensor:
        assert _lengths is not None
        real = torch.arange(length) < _lengths[:, None] - 1  # one short
        return real[:, None, None]


class BestFour(Lengths):
    """Only the four keys that a number, which is yet to be learned, ranks highest are seen."""

    def __init__(self) -> None:
        super().__init__()
        self.rank = nn.Linear(24, 1)
        nn.init.zeros_(self.rank.weight)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Any:
        real = super().seen(x.shape[1], lengths)[:, 0, 0]
        ranks = self.rank(x)[..., 0].masked_fill(~real, -math.inf)
        best = ranks.topk(4).indices
        self.chosen = torch.zeros_like(real).scatter(1, best, value=True)
        return super().forward(x, lengths)

    def seen(self, _length: int, _lengths: Tensor | None) -> Tensor:
        return self.chosen[:, None, None]


class BothInTurn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ahead, self.back = Causal(), Backwards()

    def forward(self, x: Tensor) -> Any:
        return self.back(x + self.ahead(x))


class Backwards(ByHand):
    def seen(self, length: int, _lengths: Tensor | None) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool).triu()


def test_a_causal_mask_in_a_model_that_sees_both_ways() -> None:
    (finding,) = found(Causal(), features(), BOTH_WAYS)
    assert (finding.code, finding.severity) == ("AS212", "warning")
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "causal")
    assert finding.evidence["hidden_pairs"] == 3 * 8 * 7 // 2


@pytest.mark.parametrize("kind", [Near, BothInTurn])
def test_windows_and_both_directions_in_turn_are_silent(kind: type[nn.Module]) -> None:
    assert not found(kind(), features(), BOTH_WAYS)


def test_nothing_is_said_of_a_causal_mask_where_nothing_is_declared() -> None:
    assert not found(Causal(), features())


def test_real_tokens_that_are_masked_as_padding() -> None:
    inputs = {"x": features(), "lengths": torch.tensor([8, 5, 6])}
    expect = {"padding": "lengths lengths"}
    (finding,) = found(OneShort(), inputs, expect)
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "one short")
    assert finding.evidence["hidden_pairs"] == 8 + 5 + 6
    assert finding.evidence["key"] == 7
    assert not found(Lengths(), inputs, expect)


def test_real_tokens_that_are_not_chosen() -> None:
    inputs = {"x": features(), "lengths": torch.tensor([8, 5, 6])}
    assert not found(BestFour(), inputs, {"padding": "lengths lengths"})


def test_a_causal_mask_that_hides_the_diagonal() -> None:
    (finding,) = found(Strict(), features(), {"causal": True})
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "strict")
    assert not found(Causal(), features(), {"causal": True})


def test_where_queries_are_keys_the_diagonal_is_hidden_on_purpose() -> None:
    assert not found(Strict(shared=True), features(), {"causal": True})


class Translator(nn.Module):
    def __init__(self, *, wrong: bool) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.model = nn.Transformer(24, 3, 1, 1, 32, dropout=0.0, batch_first=True)
        self.wrong = wrong

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        memory_mask = mask if self.wrong else None
        return self.model(src, tgt, tgt_mask=mask, memory_mask=memory_mask)


def test_a_decoders_own_mask_in_cross_attention() -> None:
    inputs = {"src": features(), "tgt": features()}
    assert not found(Translator(wrong=False), inputs, {"causal": True})
    (finding,) = found(Translator(wrong=True), inputs, {"causal": True})
    assert finding.module == "model.decoder.layers.0.multihead_attn"


class Prefixed(ByHand):
    """Reads the first three tokens both ways, or forgets to."""

    def __init__(self, *, forgets: bool) -> None:
        super().__init__()
        self.forgets = forgets

    def seen(self, length: int, _lengths: Tensor | None) -> Tensor:
        at = torch.arange(length)
        causal = at <= at[:, None]  # plainly causal
        return causal if self.forgets else causal | ((at < 3) & (at[:, None] < 3))


def test_a_declared_prefix_that_is_read_left_to_right() -> None:
    expect = {"causal": True, "prefix": 3}
    (finding,) = found(Prefixed(forgets=True), features(), expect)
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "plainly causal")
    assert not found(Prefixed(forgets=False), features(), expect)


class Cross(nn.Module):
    def __init__(self, *, wrong: bool) -> None:
        super().__init__()
        self.q, self.k, self.wrong = nn.Linear(24, 24), nn.Linear(24, 24), wrong

    def forward(self, x: Tensor, regions: Tensor) -> Any:
        seen = torch.ones(x.shape[1], regions.shape[1], dtype=torch.bool)
        seen = seen.tril() if self.wrong else seen  # tril
        scores = (self.q(x) @ self.k(regions).mT).masked_fill(~seen, -math.inf)
        return scores.softmax(-1) @ regions


class Reader(nn.Module):
    """Words read a memory of another length, in two layers that share it."""

    def __init__(self, *, wrong: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.words = nn.Embedding(30, 24)
        self.layers = nn.ModuleList(Cross(wrong=wrong) for _ in range(2))

    def forward(self, words: Tensor, regions: Tensor) -> Any:
        x = self.words(words)
        for layer in self.layers:
            x = x + layer(x, regions)
        return x


def test_a_memory_of_another_length_is_not_read_step_by_step() -> None:
    inputs = {"words": torch.arange(14).view(2, 7), "regions": features(11, 2)}
    (finding,) = found(Reader(wrong=True), inputs, {"causal": True})
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "tril")
    assert not found(Reader(wrong=False), inputs, {"causal": True})


class Blocks(nn.Module):
    """Online softmax over blocks of keys; the last block may be left out."""

    def __init__(self, *, rest: bool) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.q, self.k, self.v, self.rest = (
            nn.Linear(24, 24),
            nn.Linear(24, 24),
            nn.Linear(24, 24),
            rest,
        )

    def forward(self, x: Tensor) -> Any:
        q, k, v = (
            each(x).unflatten(-1, (3, -1)).transpose(1, 2) for each in (self.q, self.k, self.v)
        )
        top = q.new_full((*q.shape[:-1], 1), -math.inf)
        total, out = torch.zeros_like(top), torch.zeros_like(v)
        stop = k.shape[2] if self.rest else k.shape[2] - 2
        for at in range(0, stop, 3):  # blocks
            scores = q @ k[:, :, at : at + 3].mT / math.sqrt(8)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            weights, shrink = (scores - new).exp(), (top - new).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            out, top = out * shrink + weights @ v[:, :, at : at + 3], new
        return (out / total).transpose(1, 2).flatten(2)


def test_blocks_that_leave_out_the_rest() -> None:
    (finding,) = found(Blocks(rest=False), features(11))
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "blocks")
    assert (finding.evidence["keys"], finding.evidence["tokens"]) == (9, 11)
    assert not found(Blocks(rest=True), features(11))


class Read(Causal):
    """One position of the result is read."""

    def __init__(self, at: int, factor: float = 1.0) -> None:
        super().__init__()
        self.at, self.factor = at, factor

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Any:
        return self.factor * super().forward(x, lengths)[:, self.at]  # read


class ReadBothWays(Read):
    def seen(self, length: int, _lengths: Tensor | None) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool)


class BehindClassToken(Read):
    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Any:
        return super().forward(torch.cat([x.new_ones(len(x), 1, 24), x], 1), lengths)


@pytest.mark.parametrize(("kind", "hidden"), [(Read, 7), (BehindClassToken, 8)])
def test_a_result_read_where_a_causal_mask_lets_nothing_in(kind: type[Read], hidden: int) -> None:
    (finding,) = found(kind(0), features())
    assert finding.evidence["tokens_without_effect"] == hidden
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "read")
    assert not found(kind(-1), features())


def test_a_first_position_that_sees_all_and_a_head_at_zero() -> None:
    assert not found(ReadBothWays(0), features())
    assert not found(Read(-1, factor=0.0), features())
