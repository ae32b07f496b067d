"""AS104: tiled kv heads, v expanded in another way than k, loops that pick the wrong one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.checks.marks import marked
from tests.checks.rules.by_scores import features, found, line_of, only

HEADS, KV_HEADS, SIZE = 4, 2, 6


def repeated(x: Tensor) -> Tensor:
    return x.repeat_interleave(HEADS // KV_HEADS, dim=1)


def tiled(x: Tensor) -> Tensor:
    return x.repeat(1, HEADS // KV_HEADS, 1, 1)  # tiled


class Grouped(nn.Module):
    def __init__(self, k: Callable[[Tensor], Tensor], v: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.expand_k, self.expand_v = k, v
        self.q, self.kv = nn.Linear(24, 24), nn.Linear(24, 2 * KV_HEADS * SIZE)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.q(x).view(b, n, HEADS, SIZE).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, KV_HEADS, SIZE).permute(2, 0, 3, 1, 4)
        scores = q @ self.expand_k(k).mT * SIZE**-0.5
        return (scores.softmax(-1) @ self.expand_v(v)).transpose(1, 2).flatten(2)  # type: ignore[no-any-return]


class Loop(nn.Module):
    def __init__(self, pick: Callable[[int], int]) -> None:
        super().__init__()
        self.pick = pick
        self.q, self.kv = nn.Linear(24, 24), nn.Linear(24, 2 * KV_HEADS * SIZE)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.q(x).view(b, n, HEADS, SIZE)
        keys, values = (t.view(b, n, KV_HEADS, SIZE) for t in self.kv(x).chunk(2, -1))
        done = []
        for head in range(HEADS):
            kv = self.pick(head)  # picked
            scores = q[:, :, head] @ keys[:, :, kv].mT * SIZE**-0.5
            done.append(scores.softmax(-1) @ values[:, :, kv])
        return torch.cat(done, -1)


@pytest.mark.parametrize(("k", "v"), [(tiled, tiled), (repeated, tiled)])
def test_tiled_heads(k: Callable[[Tensor], Tensor], v: Callable[[Tensor], Tensor]) -> None:
    finding = only("AS104", Grouped(k, v), features())
    assert finding.severity == "error"
    assert finding.evidence["kv_head_met"] == [0, 1, 0, 1]
    assert finding.evidence["kv_head_expected"] == [0, 0, 1, 1]
    assert line_of(finding) == marked(__file__, "tiled")


def joined(x: Tensor) -> Tensor:
    return torch.cat([x, x], dim=1)  # joined


def stacked(x: Tensor) -> Tensor:
    return torch.stack([x[:, head % KV_HEADS] for head in range(HEADS)], dim=1)  # stacked


def looked_up(x: Tensor) -> Tensor:
    return x[:, torch.arange(HEADS) % KV_HEADS]  # looked up


@pytest.mark.parametrize(
    ("values", "mark"), [(joined, "joined"), (stacked, "stacked"), (looked_up, "looked up")]
)
def test_values_alone_that_are_copied_in_another_order(
    values: Callable[[Tensor], Tensor], mark: str
) -> None:
    finding = only("AS104", Grouped(repeated, values), features())
    assert finding.evidence["side"] == "v"
    assert line_of(finding) == marked(__file__, mark)


def test_copies_in_place_by_different_means_are_right() -> None:
    def in_place(x: Tensor) -> Tensor:
        return torch.stack([x[:, head // 2] for head in range(HEADS)], dim=1)

    assert not found("AS104", Grouped(repeated, in_place), features())
    assert not found("AS104", Grouped(in_place, in_place), features())


def test_a_loop_that_takes_the_remainder() -> None:
    finding = only("AS104", Loop(lambda head: head % KV_HEADS), features())
    assert finding.evidence["kv_head_met"] == [0, 1, 0, 1]
    assert line_of(finding) == marked(__file__, "picked")


def test_repeated_heads_are_right() -> None:
    assert not found("AS104", Grouped(repeated, repeated), features())
    assert not found("AS104", Loop(lambda head: head // (HEADS // KV_HEADS)), features())


class ByGroup(Grouped):
    """Each of two experts has a query head for each kv head."""

    def __init__(self, k: Callable[[Tensor], Tensor], v: Callable[[Tensor], Tensor]) -> None:
        super().__init__(k, v)
        self.experts = nn.ModuleList([nn.Linear(24, KV_HEADS * SIZE) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = torch.stack([expert(x) for expert in self.experts], dim=2)
        q = q.view(b, n, HEADS, SIZE).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, KV_HEADS, SIZE).permute(2, 0, 3, 1, 4)
        scores = q @ self.expand_k(k).mT * SIZE**-0.5
        return (scores.softmax(-1) @ self.expand_v(v)).transpose(1, 2).flatten(2)  # type: ignore[no-any-return]


def test_query_heads_that_are_made_group_by_group_meet_tiled_ones() -> None:
    assert found("AS104", ByGroup(tiled, tiled), features()) == []


class Folded(nn.Module):
    """Beams that share the keys of their source; (beams · heads) rows go through bmm."""

    def __init__(self, copies: Callable[[Tensor], Tensor], kv_heads: int) -> None:
        super().__init__()
        self.copies = copies
        self.q, self.kv = nn.Linear(24, 24), nn.Linear(24, 2 * kv_heads * SIZE)

    def forward(self, beams: Tensor, source: Tensor) -> Tensor:
        b, m, n, _ = beams.shape
        k, v = self.kv(source).unflatten(-1, (2, -1, SIZE)).permute(2, 0, 3, 1, 4)
        k, v = (self.copies(t).repeat_interleave(m, 0).flatten(0, 1) for t in (k, v))
        q = self.q(beams).view(b * m, n, HEADS, SIZE).transpose(1, 2).flatten(0, 1)
        made = torch.bmm(q, k.mT).mul(SIZE**-0.5).softmax(-1).bmm(v)
        return made.view(b, m, HEADS, n, SIZE).transpose(2, 3).flatten(3)


def test_samples_that_share_their_keys_are_no_groups_of_heads() -> None:
    source = features()
    beams = {
        "beams": torch.stack([source * 2, source.flip(1), source.flip(2)], 1),
        "source": source,
    }
    assert not found("AS104", Folded(lambda x: x, HEADS), beams)
    assert not found("AS402", Folded(lambda x: x, HEADS), beams)
    assert not found("AS104", Folded(repeated, KV_HEADS), beams)
    finding = only("AS104", Folded(tiled, KV_HEADS), beams)
    assert finding.evidence["kv_head_met"] == [0, 1, 0, 1]
    assert line_of(finding) == marked(__file__, "tiled")


def test_a_prompt_for_the_whole_batch_in_library_attention() -> None:
    class Prompted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = nn.MultiheadAttention(24, 2, batch_first=True)

        def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
            shared = prompt.expand(len(x), -1, -1)
            made: Tensor = self.read(x, shared, shared)[0]
            return made

    assert not found("AS104", Prompted(), (features(), features()[:1, :4]))


class Regrouped(nn.Module):
    """Products in five axes; heads lie kv head by kv head, or group by group."""

    def __init__(self, *, outside: bool) -> None:
        super().__init__()
        self.outside = outside
        self.q, self.k, self.v = nn.Linear(24, 24), nn.Linear(24, 8), nn.Linear(24, 8)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.q(x)
        q = q.view(b, n, 3, 2, 4).transpose(2, 3) if self.outside else q.view(b, n, 2, 3, 4)
        k, v = self.k(x).view(b, n, 2, 4), self.v(x).view(b, n, 2, 4)
        weights = (torch.einsum("bqhgd,bkhd->bhgqk", q, k) / 2).softmax(-1)
        return torch.einsum("bhgqk,bkhd->bqhgd", weights, v).reshape(b, n, 24)


def test_query_heads_are_numbered_as_their_features_lie() -> None:
    finding = only("AS104", Regrouped(outside=True), features())
    assert finding.evidence["kv_head_met"] == [0, 1, 0, 1, 0, 1]
    assert not found("AS104", Regrouped(outside=False), features())
