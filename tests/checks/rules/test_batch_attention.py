"""AS102: samples of a batch that mix; a note where nothing says which axis the batch is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checks.small import SelfAttention, checked, line_of, noise, the_finding

X = noise(3, 7, 16)


class Library(nn.Module):
    """The layer of torch, which takes time first unless it is told."""

    def __init__(self, *, batch_first: bool = False, table: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=batch_first)
        self.table = nn.Parameter(noise(*table)) if table else None

    def mixed(self, x: Tensor) -> Any:
        return self.attention(x, x, x)[0]

    def forward(self, x: Tensor) -> Any:
        return self.mixed(x if self.table is None else x + self.table)


class Named(Library):
    def forward(self, x: Tensor) -> Any:
        batch, length, width = x.shape
        return self.mixed(x).view(batch, length, width)


class Documented(Library):
    """Attend within x: (batch, time, features)."""

    def forward(self, x: Tensor) -> Any:
        return self.mixed(x)


class DocumentedTimeFirst(Library):
    """Attend within x: (time, batch, features)."""

    def forward(self, x: Tensor) -> Any:
        return self.mixed(x)


class Pooled(Library):
    def forward(self, x: Tensor) -> Any:
        return self.mixed(x).mean(1)


class PooledOverTheFirst(Library):
    def forward(self, x: Tensor) -> Any:
        return self.mixed(x).mean(0)


class Inner(Library):
    def forward(self, x: Tensor) -> Any:
        time, batch, width = x.shape
        return self.mixed(x).view(time, batch, width)


class InnerBatchFirst(Library):
    def forward(self, x: Tensor) -> Any:
        b, n, c = x.shape
        return self.mixed(x).view(b, n, c)


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Any:
        return x + self.inner(x)


class Turned(Library):
    """(batch, length, width) turned for a layer that reads it so already."""

    def forward(self, x: Tensor) -> Any:
        y = x.transpose(0, 1)
        return self.mixed(y).transpose(0, 1)


@pytest.mark.parametrize(
    ("model", "expect"),
    [
        (Library(), {"batch_axis": 0}),
        (Named(), {}),
        (Documented(), {}),
        (Library(table=(1, 7, 16)), {}),
        (Library(table=(7, 16)), {}),
        (Pooled(), {}),
        (Outer(InnerBatchFirst()), {}),
        (Turned(batch_first=True), {"batch_axis": 0}),
    ],
)
def test_attention_over_the_samples_is_an_error_where_something_says_so(
    model: nn.Module, expect: dict[str, Any]
) -> None:
    finding = the_finding(checked(model, X, "AS102", **expect))
    assert (finding.code, finding.severity) == ("AS102", "error")
    assert finding.evidence["keys"] == finding.evidence["batch"] == 3
    assert finding.evidence["samples_moved"] == 2
    assert finding.evidence["moved_in_other_samples"] > 1000 * finding.evidence["noise"]
    assert "the 3 keys of each query are the 3 samples of the batch" in finding.message
    assert "self.mixed" in line_of(finding) or "self.attention(" in line_of(finding)


@pytest.mark.parametrize(
    ("model", "expect"),
    [
        (Library(), {"batch_axis": 1}),
        (DocumentedTimeFirst(), {}),
        (Library(table=(3, 1, 16)), {}),
        (PooledOverTheFirst(), {}),
        (Outer(Inner()), {}),
    ],
)
def test_it_is_right_where_something_says_that_time_comes_first(
    model: nn.Module, expect: dict[str, Any]
) -> None:
    assert not checked(model, X, "AS102", **expect).findings


def test_where_nothing_speaks_for_either_it_is_a_note_that_asks() -> None:
    report = checked(Library(), X, "AS102")
    finding = the_finding(report)
    assert finding.severity == "note"
    assert report.ok
    assert "nothing says that axis 0 of x is the batch" in finding.message
    assert "declare expect batch_axis=1" in finding.fix


class OverSamples(SelfAttention):
    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(0)


class OneStream(SelfAttention):
    def forward(self, x: Tensor) -> Any:
        b, n, c = x.shape
        return self.attend(x.reshape(1, b * n, c)).reshape(b, n, c)


class OneCausalStream(OneStream):
    def attend(self, x: Tensor) -> Any:
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        return self.out(self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


def test_a_softmax_over_the_samples_is_wrong_whatever_the_axes_are() -> None:
    finding = the_finding(checked(OverSamples(), X, "AS101", "AS102"))
    assert (finding.code, finding.severity) == ("AS101", "error")
    assert line_of(finding) == "return scores.softmax(0)"
    assert "runs over" in finding.message


class Patches(nn.Module):
    """Pictures cut into patches, whose samples end up beside the columns, or do not."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        self.order = order
        self.cut = nn.Conv2d(3, 16, 4, stride=4)
        self.start = nn.Parameter(torch.ones(1, 1, 16))
        self.attention = SelfAttention()

    def forward(self, pictures: Tensor) -> Any:
        rows = self.cut(pictures).permute(*self.order).reshape(len(pictures), -1, 16)
        rows = torch.cat([self.start.expand(len(rows), -1, -1), rows], 1)
        return self.attention(rows)[:, 0]


def test_samples_merged_with_patches_are_told_where_they_are_merged() -> None:
    finding = the_finding(checked(Patches(2, 3, 0, 1), noise(3, 3, 8, 12), "AS102"))
    assert finding.severity == "error"
    assert line_of(finding).startswith("rows = self.cut(pictures).permute")
    assert not checked(Patches(0, 2, 3, 1), noise(3, 3, 8, 12), "AS102").findings


class Windows(nn.Module):
    """Attention in windows that are put back in the order (batch, windows)."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        self.order = order
        self.attention = SelfAttention()

    def forward(self, x: Tensor) -> Any:
        batch, length, width = x.shape
        apart = x.view(batch, length // 4, 4, width).permute(*self.order)
        windows = apart.reshape(-1, 4, width)
        return self.attention(windows).view(batch, length, width)


def test_windows_before_samples_are_told_at_the_partition() -> None:
    finding = the_finding(checked(Windows(1, 0, 2, 3), noise(2, 12, 16), "AS102", batch_axis=0))
    assert line_of(finding) == "windows = apart.reshape(-1, 4, width)"
    assert not checked(Windows(0, 1, 2, 3), noise(2, 12, 16), "AS102", batch_axis=0).findings


class Shared(nn.Module):
    """Rows of a search over few sources."""

    def __init__(self, *, beams: bool, tiled: bool) -> None:
        super().__init__()
        self.tiled = tiled
        if beams:
            self.beams = 3
        self.q, self.kv = nn.Linear(16, 16), nn.Linear(16, 32)

    def forward(self, source: Tensor, x: Tensor) -> Any:
        k, v = self.kv(source).unflatten(-1, (2, -1)).transpose(1, 2).chunk(2, -1)
        if self.tiled:
            k, v = k.repeat(3, 1, 1, 1), v.repeat(3, 1, 1, 1)
        else:
            k, v = k.repeat_interleave(3, 0), v.repeat_interleave(3, 0)
        q = self.q(x).unflatten(-1, (2, -1)).transpose(1, 2)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("beams", "severity"), [(True, "warning"), (False, "note")])
def test_sources_tiled_over_the_rows_of_a_search(beams: bool, severity: str) -> None:  # noqa: FBT001  a case
    inputs = {"source": noise(2, 7, 16), "x": noise(6, 5, 16, seed=1)}
    finding = the_finding(checked(Shared(beams=beams, tiled=True), inputs, "AS102"))
    assert finding.severity == severity
    assert finding.evidence["rows"] == [1, 3, 5]
    assert line_of(finding).startswith("k, v = k.repeat(3")
    assert not checked(Shared(beams=beams, tiled=False), inputs, "AS102").findings


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (OneStream(), "self.weigh"),
        (OneCausalStream(), "scaled_dot_product_attention"),
    ],
)
def test_a_batch_in_one_sequence_is_found_where_it_mixes(model: nn.Module, line: str) -> None:
    finding = the_finding(checked(model, X, "AS102"))
    assert finding.severity == "error"
    assert line in line_of(finding) or "softmax" in line_of(finding)


class RowsAsTime(Library):
    """ids: (batch, rows, columns)."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__(batch_first=batch_first)
        self.embedding = nn.Embedding(9, 16)

    def forward(self, ids: Tensor) -> Any:
        x = self.embedding(ids)
        return self.mixed(x.flatten(0, 1)).view_as(x)


def test_rows_of_several_samples_are_called_rows() -> None:
    ids = torch.randint(1, 9, (3, 4, 5), generator=torch.Generator().manual_seed(0))
    finding = the_finding(checked(RowsAsTime(batch_first=False), {"ids": ids}, "AS102"))
    assert finding.severity == "error"
    assert "12 rows of all 3 samples" in finding.message
    assert not checked(RowsAsTime(batch_first=True), {"ids": ids}, "AS102").findings


class Standardised(SelfAttention):
    """Statistics over the batch: another fault, with a rule of its own."""

    def weigh(self, scores: Tensor) -> Tensor:
        return (scores / scores.std(0)).softmax(-1)


class MaskOfOthers(SelfAttention):
    """The mask of one sample hides keys of another: a fault of the mask."""

    def attend(self, x: Tensor) -> Any:
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        seen = (x[..., 0] > 0).roll(1, 0)[:, None, None]
        scores = (q @ k.mT / 3.0).masked_fill(~seen, -1e9)
        return self.out(self.merge(scores.softmax(-1) @ v))


class Contrasted(SelfAttention):
    """Two towers whose outputs are compared across the batch, outside of attention."""

    def forward(self, x: Tensor, image: Tensor) -> Any:  # type: ignore[override]
        return self.attend(x).mean(1) @ self.attend(image).mean(1).T


class SharedMemory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor) -> Any:
        memory = memory.repeat_interleave(x.shape[0] // memory.shape[0], 0)
        return self.attention(x, memory, memory)[0]


class Nodes(nn.Module):
    """A graph: its rows are tokens, and there is no batch."""

    def forward(self, h: Tensor, adjacency: Tensor) -> Any:
        scores = (h @ h.T).masked_fill(adjacency == 0, -1e9)
        return scores.softmax(1) @ h


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (SelfAttention(), X),
        (SelfAttention(), noise(4, 4, 16)),
        (Library(batch_first=True), X),
        (Standardised(), X),
        (MaskOfOthers(), X),
        (Contrasted(), (X, noise(3, 5, 16, seed=1))),
        (SharedMemory(), (noise(4, 7, 16), noise(2, 5, 16, seed=1))),
        (nn.MultiheadAttention(16, 2), (X, X, X)),
    ],
)
def test_what_keeps_samples_apart_or_is_another_fault_is_silent(
    model: nn.Module, inputs: Any
) -> None:
    assert not checked(model, inputs, "AS102").findings


def test_a_graph_without_a_batch_is_no_error() -> None:
    inputs = (noise(6, 16), torch.ones(6, 6).tril())
    assert checked(Nodes(), inputs, "AS102").ok
