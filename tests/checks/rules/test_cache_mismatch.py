"""AS601: what a cache gets wrong, told at the line that does it; caches in all their forms."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.checks.finding import Finding
from tests.checks.marks import marked

EXPECT = {"causal": True, "cache": "past"}
Past = tuple[Tensor, Tensor] | None


def found(model: Any, inputs: Any, expect: dict[str, Any] | None = None) -> list[Finding]:
    report = attnscope.check(model.eval(), inputs, expect=expect, select=["AS601"])
    assert not [each for each in report.rules_skipped if each.failed]
    return list(report.findings)


def ids(length: int = 9) -> Tensor:
    return torch.randint(0, 30, (2, length), generator=torch.Generator().manual_seed(0))


class Decoder(nn.Module):
    """A decoder with a cache that is right; those that inherit from it get one thing wrong."""

    def __init__(self, width: int = 24, heads: int = 3) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.heads = heads
        self.tokens, self.places = nn.Embedding(30, width), nn.Embedding(40, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, 30)

    def embedded(self, x: Tensor, seen: int) -> Any:
        return self.tokens(x) + self.places(torch.arange(seen, seen + x.shape[1]))

    def joined(self, past: Past, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return (k, v) if past is None else (torch.cat([past[0], k], 2), torch.cat([past[1], v], 2))

    def attended(self, x: Tensor, past: Past, seen: int) -> tuple[Tensor, Past]:
        b, t = x.shape
        h = self.embedded(x, seen)
        q, k, v = self.qkv(h).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = self.joined(past, k, v)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        later = torch.ones(t, k.shape[2], dtype=torch.bool).triu(k.shape[2] - t + 1)
        weights = scores.masked_fill(later, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, -1)), (k, v)

    def forward(self, x: Tensor, past: Past = None) -> Any:
        return self.attended(x, past, 0 if past is None else past[0].shape[2])


class Restarts(Decoder):
    def embedded(self, x: Tensor, _seen: int) -> Any:
        return self.tokens(x) + self.places(torch.arange(x.shape[1]))  # restarts


class Swapped(Decoder):
    def joined(self, past: Past, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if past is None:
            return k, v
        k = torch.cat([past[0], k], 2)
        v = torch.cat([v, past[1]], 2)  # swapped
        return k, v


class Forgets(Decoder):
    def attended(self, x: Tensor, past: Past, seen: int) -> tuple[Tensor, Past]:
        b, t = x.shape
        h = self.embedded(x, seen)
        q, k, v = self.qkv(h).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        kept = (k, v)  # forgets
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        later = torch.ones(t, k.shape[2], dtype=torch.bool).triu(k.shape[2] - t + 1)
        weights = scores.masked_fill(later, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, -1)), kept


class OtherAxis(Decoder):
    def joined(self, past: Past, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if past is None:
            return k, v
        return torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)  # other axis


class Turned(Decoder):
    """Positions are turned into queries and keys; what is kept is turned already."""

    def turn(self, x: Tensor, start: int) -> Tensor:
        angles = (torch.arange(x.shape[2]) + start)[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.03])
        a, b = x.chunk(2, -1)
        return torch.cat(
            [a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1
        )

    def keys(self, past: Past, k: Tensor, seen: int) -> Tensor:
        k = self.turn(k, seen)
        return k if past is None else torch.cat([past[0], k], 2)

    def attended(self, x: Tensor, past: Past, seen: int) -> tuple[Tensor, Past]:
        b, t = x.shape
        q, k, v = self.qkv(self.tokens(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.turn(q, seen), self.keys(past, k, seen)
        v = v if past is None else torch.cat([past[1], v], 2)
        later = torch.ones(t, k.shape[2], dtype=torch.bool).triu(k.shape[2] - t + 1)
        weights = (q @ k.mT).masked_fill(later, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, -1)), (k, v)


class FromZero(Turned):
    def keys(self, past: Past, k: Tensor, _seen: int) -> Tensor:
        k = self.turn(k, 0)  # from zero
        return k if past is None else torch.cat([past[0], k], 2)


class LeftOut(Turned):
    def turn(self, x: Tensor, start: int = 0) -> Tensor:
        at = torch.arange(start, start + x.shape[2])[:, None]
        angles = at * torch.tensor([1.0, 0.3, 0.1, 0.03])
        a, b = x.chunk(2, -1)
        return torch.cat(
            [a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1
        )

    def keys(self, past: Past, k: Tensor, _seen: int) -> Tensor:
        k = self.turn(k)  # left out
        return k if past is None else torch.cat([past[0], k], 2)


class TurnedAgain(Turned):
    def keys(self, past: Past, k: Tensor, _seen: int) -> Tensor:
        k = k if past is None else torch.cat([past[0], k], 2)
        return self.turn(k, 0)  # turned again


class Sparse(Decoder):
    """Each query sees the three keys with the highest gates of those before it."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.tensor(start))

    def attended(self, x: Tensor, past: Past, seen: int) -> tuple[Tensor, Past]:
        b, t = x.shape
        q, k, v = (
            self.qkv(self.embedded(x, seen)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        k, v = self.joined(past, k, v)
        later = torch.ones(t, k.shape[2], dtype=torch.bool).triu(k.shape[2] - t + 1)
        gates = (self.start * v.mean(-1)).exp()[:, :, None].expand(-1, -1, t, -1)
        gates = gates.masked_fill(later, -math.inf)
        best = gates.topk(min(3, k.shape[2]), -1, sorted=False).indices
        hidden = torch.ones_like(gates, dtype=torch.bool).scatter(-1, best, value=False)
        weights = (q @ k.mT).masked_fill(hidden | later, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, -1)), (k, v)


def test_a_choice_among_equals_proves_nothing() -> None:
    assert found(Sparse(1.0), ids(), EXPECT) == []
    report = attnscope.check(Sparse(0.0).eval(), ids(), expect=EXPECT, select=["AS601"])
    assert not report.findings
    (skipped,) = [each for each in report.rules_skipped if each.code == "AS601"]
    assert "chooses among equal numbers" in skipped.reason


@pytest.mark.parametrize(
    ("kind", "mark"),
    [
        (Restarts, "restarts"),
        (Swapped, "swapped"),
        (Forgets, "forgets"),
        (FromZero, "from zero"),
        (LeftOut, "left out"),
        (TurnedAgain, "turned again"),
    ],
)
def test_the_line_that_parts_from_the_full_pass(kind: type[Decoder], mark: str) -> None:
    (finding,) = found(kind(), ids(), EXPECT)
    assert (finding.code, finding.severity) == ("AS601", "error")
    assert finding.source is not None
    assert finding.source.line == marked(__file__, mark)
    assert finding.evidence["largest"] > 100 * finding.evidence["rounding"]
    assert "at once" in finding.evidence["ways_that_agree"]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(24, 72)

    def forward(self, x: Tensor, past: Past) -> tuple[Tensor, Past]:
        q, k, v = self.qkv(x).chunk(3, -1)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        later = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).triu(
            k.shape[1] - q.shape[1] + 1
        )
        weights = (q @ k.mT).masked_fill(later, -math.inf).softmax(-1)
        return x + weights @ v, (k, v)


class Two(nn.Module):
    """Two layers with a cache each, or with that of the first for both."""

    def __init__(self, *, first: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.tokens, self.first = nn.Embedding(30, 24), first
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x: Tensor, past: Any = None) -> Any:
        x, kept = self.tokens(x), []
        for at, layer in enumerate(self.layers):
            own = None if past is None else past[0 if self.first else at]
            x, new = layer(x, own)  # handed on
            kept.append(new)
        return x, kept


def test_a_layer_that_is_handed_the_cache_of_another_one() -> None:
    (finding,) = found(Two(first=True), ids(), EXPECT)
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "handed on")
    assert not found(Two(first=False), ids(), EXPECT)


def test_a_right_cache_is_silent() -> None:
    assert not found(Turned(), ids(), EXPECT)
    assert not found(Decoder(), ids(), EXPECT)
    assert not found(Decoder(heads=1), ids(4), EXPECT)
    assert not found(Decoder(), ids(2), EXPECT)


def test_a_declared_cache_that_can_never_be_used() -> None:
    (finding,) = found(OtherAxis(), ids(), EXPECT)
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "other axis")
    assert "raises" in finding.message


def test_an_argument_that_is_called_past_is_tried_undeclared() -> None:
    assert found(Restarts(), ids(), {"causal": True})
    assert not found(Decoder(), ids(), {"causal": True})


# -- forms of a cache ----------------------------------------------------------------------------


class ByName(Decoder):
    def forward(self, x: Tensor, past: Any = None, *, use_cache: bool = False) -> Any:
        held = None if past is None else past["layer"]
        logits, kept = self.attended(x, held, self.seen(held))
        return SimpleNamespace(logits=logits, past={"layer": kept} if use_cache else None)

    def seen(self, held: Past) -> int:
        return 0 if held is None else held[0].shape[2]


class ByNameRestarts(ByName):
    def seen(self, held: Past) -> int:
        return 0 * super().seen(held)


def test_a_cache_as_an_attribute_of_the_output_with_a_flag() -> None:
    assert not found(ByName(), ids(), EXPECT)
    assert found(ByNameRestarts(), ids(), EXPECT)


class Kept(Decoder):
    def __init__(self) -> None:
        super().__init__()
        self.held: Past = None

    def reset(self) -> None:
        self.held = None

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        output, self.held = self.attended(
            x, self.held, 0 if self.held is None else self.held[0].shape[2]
        )
        return output


def test_a_cache_that_the_module_keeps() -> None:
    assert not found(Kept(), ids(), {"causal": True, "cache": "self"})


def test_a_request_after_another_one() -> None:
    class Leaves(Kept):
        def reset(self) -> None:
            if self.held is not None:
                self.held = (self.held[0][:, :, :2], self.held[1][:, :, :2])  # leaves two

        def forward(self, x: Tensor) -> Any:  # type: ignore[override]
            seen = 0 if self.held is None else self.held[0].shape[2]
            output, self.held = self.attended(x, self.held, seen)
            return output

    (finding,) = found(Leaves(), ids(), {"causal": True, "cache": "self"})
    assert "follows another one" in finding.message
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "leaves two")


class TimeFirst(Decoder):
    def forward(self, x: Tensor, past: Past = None) -> Any:
        output, kept = super().forward(x.mT, past)
        return output.transpose(0, 1), kept


class TimeFirstRestarts(TimeFirst):
    def embedded(self, x: Tensor, seen: int) -> Any:
        return super().embedded(x, 0 * seen)


def test_tokens_on_the_first_axis() -> None:
    expect = {**EXPECT, "batch_axis": 1, "sequence_axis": 0}
    assert not found(TimeFirst(), ids().mT.contiguous(), expect)
    assert found(TimeFirstRestarts(), ids().mT.contiguous(), expect)


def test_a_past_among_the_inputs_is_where_steps_begin() -> None:
    model = Decoder().eval()
    _, past = model(ids(5))
    assert not found(model, {"x": ids(4), "past": past}, EXPECT)
    wrong = Restarts().eval()
    _, past = wrong(ids(5))
    assert found(wrong, {"x": ids(4), "past": past}, EXPECT)


def test_models_without_a_cache_or_with_a_future_are_not_put_to_it() -> None:
    for model, expect, word in (
        (
            nn.TransformerEncoderLayer(24, 4, 32, batch_first=True),
            None,
            "no argument takes a cache",
        ),
        (Future(), EXPECT, "see later ones"),
    ):
        x = ids() if isinstance(model, Decoder) else torch.randn(2, 7, 24)
        report = attnscope.check(model.eval(), x, expect=expect, select=["AS601"])
        assert word in report.rules_skipped[0].reason


class Future(Decoder):
    def attended(self, x: Tensor, past: Past, seen: int) -> tuple[Tensor, Past]:
        output, kept = super().attended(x, past, seen)
        return output + output.mean(1, keepdim=True), kept


class Held:
    """A cache of a class of its own, that a run fills."""

    def __init__(self) -> None:
        self.past: Past = None


class Filling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decoder = Decoder()

    def forward(self, x: Tensor, held: Held) -> Any:
        seen = 0 if held.past is None else held.past[0].shape[2]
        y, held.past = self.decoder.attended(x, held.past, seen)
        return y


def test_a_cache_among_the_inputs_is_left_as_it_was() -> None:
    held, model = Held(), Filling()
    report = attnscope.check(model.eval(), {"x": ids(), "held": held}, expect={"causal": True})
    assert held.past is None
    assert not [each for each in report.rules_skipped if each.failed]
    assert not [each for each in report.findings if each.code in {"AS201", "AS601", "AS801"}]


class Batched(Decoder):
    """Prompts of different lengths are padded on the left; `forgets` sees the padding in steps."""

    def __init__(self, *, forgets: bool = False) -> None:
        super().__init__()
        self.forgets = forgets

    def forward(self, x: Tensor, past: Past = None, attention_mask: Tensor | None = None) -> Any:
        b, t = x.shape
        seen = 0 if past is None else past[0].shape[2]
        real = torch.ones(b, seen + t) if attention_mask is None else attention_mask
        at = (real.long().cumsum(1) - 1).clamp(min=0)[:, seen:]
        h = self.tokens(x) + self.places(at)
        q, k, v = self.qkv(h).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = self.joined(past, k, v)
        visible = torch.ones(t, seen + t).tril(seen).bool() & real[:, None, None].bool()
        if self.forgets and past is not None:
            visible = torch.ones(t, seen + t).tril(seen).bool()
        weights = (q @ k.mT).masked_fill(~visible, -1e9).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, -1)), (k, v)


def test_prompts_that_are_padded_on_the_left() -> None:
    inputs = {"x": ids(), "attention_mask": torch.ones(2, 9, dtype=torch.long)}
    assert not found(Batched(), inputs, EXPECT)
    (finding,) = found(Batched(forgets=True), inputs, EXPECT)
    assert finding.evidence["way"] == "left-padded prompts, then one token a step"


class Sinking(Decoder):
    """Keeps the first two tokens and the last three; has no positions."""

    def embedded(self, x: Tensor, seen: int) -> Any:  # noqa: ARG002  of the class above
        return self.tokens(x)

    def attended(self, x: Tensor, past: Past, seen: int) -> tuple[Tensor, Past]:
        output, kept = super().attended(x, past, seen)
        assert kept is not None
        if kept[0].shape[2] > 5:
            kept = tuple(torch.cat([t[:, :, :2], t[:, :, -3:]], 2) for t in kept)  # type: ignore[assignment]
        return output, kept


def test_a_cache_that_lets_go_of_the_middle_is_skipped() -> None:
    report = attnscope.check(Sinking().eval(), ids(11), expect=EXPECT, select=["AS601"])
    assert not report.findings
    assert "on purpose" in report.rules_skipped[0].reason


class Short(Decoder):
    """Keeps the last four tokens, of which the full pass knows nothing."""

    def attended(self, x: Tensor, past: Past, seen: int) -> tuple[Tensor, Past]:
        output, kept = super().attended(x, past, seen)
        assert kept is not None
        return output, (kept[0][:, :, -4:], kept[1][:, :, -4:])


def test_a_cache_that_lets_go_of_the_first_ones_is_not() -> None:
    (finding,) = found(Short(), ids(11), EXPECT)
    assert "the full pass sees them" in finding.message


class Coarse(Decoder):
    """Keeps half precision."""

    def joined(self, past: Past, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        old = None if past is None else (past[0].to(k), past[1].to(v))
        return super().joined(old, k, v)

    def attended(self, x: Tensor, past: Past, seen: int) -> tuple[Tensor, Past]:
        output, kept = super().attended(x, past, seen)
        assert kept is not None
        return output, (kept[0].bfloat16(), kept[1].bfloat16())


def test_what_half_precision_rounds_is_no_mismatch() -> None:
    assert not found(Coarse(), ids(), EXPECT)


class Untold(Decoder):
    """Hugging Face's way: positions begin at zero wherever a step is not told its own."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(model_type="told")

    def forward(self, x: Tensor, past: Past = None, position_ids: Tensor | None = None) -> Any:
        at = torch.arange(x.shape[1])[None] if position_ids is None else position_ids
        self.at = at
        return self.attended(x, past, 0)

    def embedded(self, x: Tensor, seen: int) -> Any:  # noqa: ARG002  of the class above
        return self.tokens(x) + self.places(self.at)


def test_positions_that_generate_hands_on_are_a_note() -> None:
    (finding,) = found(Untold(), ids(), EXPECT)
    assert finding.severity == "note"
    assert "position_ids" in finding.message
