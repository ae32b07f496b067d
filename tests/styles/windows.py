"""Local attention: windows folded into the batch, overlapping blocks, chunks, neighbourhoods."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, core, noise, seeded, split, usual
from .truth import ROOT, Inputs, Style, Truth, attend


def window_partition(x: Tensor, size: int) -> Tensor:
    """(B, H, W, C) to (windows * B, size, size, C)."""
    B, H, W, C = x.shape
    x = x.view(B, H // size, size, W // size, size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size, size, C)


class ShiftedWindows(nn.Module):
    """Shifted 2x2 windows on a 4x6 map, a table of relative biases, a mask of -100."""

    relative_position_index: Tensor
    attn_mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.relative_position_bias_table = nn.Parameter(torch.randn(9, 3))
        coords = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij"))
        flat = torch.flatten(coords, 1)
        relative = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous() + 1
        self.register_buffer("relative_position_index", relative[..., 0] * 3 + relative[..., 1])
        self.qkv = nn.Linear(20, 72)
        self.out = nn.Linear(24, 20)
        self.register_buffer("attn_mask", self.shift_mask())

    @staticmethod
    def shift_mask() -> Tensor:
        """-100 between places that the shift brought together, (windows, 4, 4)."""
        img_mask = torch.zeros((1, 4, 6, 1))
        cuts = (slice(0, -2), slice(-2, -1), slice(-1, None))
        for count, (h, w) in enumerate((h, w) for h in cuts for w in cuts):
            img_mask[:, h, w, :] = count
        windows = window_partition(img_mask, 2).view(-1, 4)
        attn_mask = windows.unsqueeze(1) - windows.unsqueeze(2)
        return attn_mask.masked_fill(attn_mask != 0, -100.0).masked_fill(attn_mask == 0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within the shifted windows of x ``(batch, 4, 6, width)``."""
        shifted = torch.roll(x, shifts=(-1, -1), dims=(1, 2))
        windows = window_partition(shifted, 2).view(-1, 4, 20)
        B_, N, _ = windows.shape
        qkv = self.qkv(windows).reshape(B_, N, 3, 3, 8).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q = q * 8**-0.5
        attn = q @ k.transpose(-2, -1)
        table = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        attn = attn + table.view(4, 4, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        nW = self.attn_mask.shape[0]
        attn = attn.view(B_ // nW, nW, 3, N, N) + self.attn_mask.unsqueeze(1).unsqueeze(0)
        attn = attn.view(-1, 3, N, N).softmax(dim=-1)
        windows = self.out((attn @ v).transpose(1, 2).reshape(B_, N, 24))
        x = windows.view(-1, 2, 3, 2, 2, 20).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, 6, 20)
        return torch.roll(x, shifts=(1, 1), dims=(1, 2))


def windows_truth(m: Any, inputs: Any) -> Truth:
    """Windows row by row; places may see each other if they were neighbours before the shift."""
    (x,) = inputs
    rows, columns = torch.meshgrid(torch.arange(4), torch.arange(6), indexing="ij")
    place = torch.stack(((rows + 1) % 4, (columns + 1) % 6), -1)
    place = place.view(2, 2, 3, 2, 2).transpose(1, 2).reshape(6, 4, 2)
    features = m.qkv(x[:, place[..., 0], place[..., 1]]).flatten(0, 1)
    near = (place[:, :, None] - place[:, None, :]).abs().amax(-1) <= 1
    inside = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    offset = inside[:, None] - inside[None, :] + 1
    bias = m.relative_position_bias_table[offset[..., 0] * 3 + offset[..., 1]]
    return attend(
        *(split(t, 3) for t in features.chunk(3, dim=-1)),
        bias=bias.permute(2, 0, 1), visible=near.repeat(2, 1, 1)[:, None],
    )  # fmt: skip


def windows_output(m: Any, truth: Truth) -> Tensor:
    """Put the windows back on the map."""
    merged = m.out(truth.merged)
    image = merged.view(2, 2, 3, 2, 2, 20).transpose(2, 3).reshape(2, 4, 6, 20)
    return image.roll((1, 1), (1, 2))


def chunks_as_axis(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Blocks of four as an axis of their own, five axes in all."""
    b, h, n, d = q.shape
    q, k, v = (t.view(b, h, n // 4, 4, d) for t in (q, k, v))
    dots = torch.einsum("bhnid,bhnjd->bhnij", q, k) * d**-0.5
    out = torch.einsum("bhnij,bhnjd->bhnid", dots.softmax(dim=-1), v)
    return out.reshape(b, h, n, d)


def chunks_by_loop(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Blocks of four, one after the other."""
    parts = zip(q.split(4, dim=2), k.split(4, dim=2), v.split(4, dim=2), strict=True)
    return torch.cat([((a @ b.mT) / math.sqrt(8)).softmax(-1) @ c for a, b, c in parts], dim=2)


def look_back(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each block sees itself and the block before, causally; the first sees padding, masked."""
    b, h, n, d = q.shape
    bq, bk, bv = (t.reshape(b * h, n // 4, 4, d) for t in (q, k, v))
    bk, bv = (torch.cat((F.pad(t, (0, 0, 0, 0, 1, 0))[:, :-1], t), dim=2) for t in (bk, bv))
    ticks = torch.arange(n).view(1, n // 4, 4)
    past = torch.cat((F.pad(ticks, (0, 0, 1, 0), value=-1)[:, :-1], ticks), dim=2)
    dots = torch.einsum("bhie,bhje->bhij", bq, bk) * d**-0.5
    hidden = (ticks[..., None] < past[..., None, :]) | (past[..., None, :] == -1)
    dots = dots.masked_fill(hidden, -torch.finfo(dots.dtype).max)
    out = torch.einsum("bhij,bhje->bhie", dots.softmax(dim=-1), bv)
    return out.reshape(b, h, n, d)


def look_back_truth(m: Any, inputs: Any) -> Truth:
    """Blocks folded into the batch; padding that no query may see is made of zeros."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    k, v = (F.pad(t, (0, 0, 4, 0)).unfold(2, 8, 4).permute(0, 2, 1, 4, 3) for t in (k, v))
    q = q.unflatten(2, (3, 4)).transpose(1, 2)
    query, key = torch.arange(4)[:, None] + 4, torch.arange(8)[None]
    visible = torch.stack([(key <= query) & ((key >= 4) | (i > 0)) for i in range(3)])
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    return attend(q, k, v, visible=visible.repeat(2, 1, 1)[:, None])


def blocks_output(m: Any, truth: Truth) -> Tensor:
    """Three blocks a sample, in order."""
    return m.out(truth.merged).reshape(2, 12, 20)


def banded_chunks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Overlapping chunks by as_strided; only a band of diagonals is kept and normalised."""
    b, h, n, d = q.shape
    w = 2
    q = (q / math.sqrt(d)).reshape(b * h, n, d)
    k, v = (F.pad(t.reshape(b * h, n, d), (0, 0, w, w)) for t in (k, v))
    shape, stride = (b * h, n // w, 3 * w, d), list(k.stride())
    stride = [stride[0], w * stride[1], stride[1], stride[2]]
    k, v = (t.as_strided(shape, stride) for t in (k, v))
    scores = torch.einsum("bcxd,bcyd->bcxy", q.view(b * h, n // w, w, d), k)
    rows = torch.arange(n // w)[:, None, None] * w + torch.arange(w)[None, :, None]
    columns = torch.arange(n // w)[:, None, None] * w + torch.arange(3 * w)[None, None, :] - w
    outside = (columns < 0) | (columns >= n) | ((rows - columns).abs() > w)
    scores = scores.masked_fill(outside, float("-inf"))
    probs = F.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)
    return torch.einsum("bcxy,bcyd->bcxd", probs, v).reshape(b, h, n, d)


def banded_truth(m: Any, inputs: Any) -> Truth:
    """Chunks of two queries folded into the batch, six keys each."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    k, v = (F.pad(t, (0, 0, 2, 2)).unfold(2, 6, 2).permute(0, 2, 1, 4, 3) for t in (k, v))
    q = q.unflatten(2, (6, 2)).transpose(1, 2)
    key = torch.arange(6)[:, None, None] * 2 - 2 + torch.arange(6)
    query = torch.arange(6)[:, None, None] * 2 + torch.arange(2)[:, None]
    visible = (key >= 0) & (key < 12) & ((query - key).abs() <= 2)
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    return attend(q, k, v, visible=visible.repeat(2, 1, 1)[:, None])


class Neighbourhood(Projections):
    """Each token its own three keys, gathered by unfold; products by multiply and sum."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (split(f(x), self.heads) for f in (self.q, self.k, self.v))
        k, v = (F.pad(t, (0, 0, 1, 1)).unfold(2, 3, 1) for t in (k, v))  # (b, h, n, d, 3)
        scores = (q.unsqueeze(-1) * k).sum(-2) * self.head_dim**-0.5
        context = (scores.softmax(-1).unsqueeze(-2) * v).sum(-1)
        return self.out(context.transpose(1, 2).flatten(2))


def neighbourhood_truth(m: Any, inputs: Any) -> Truth:
    """Tokens folded into the batch; the zero padding at both ends is attended to."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    k, v = (F.pad(t, (0, 0, 1, 1)).unfold(2, 3, 1).permute(0, 2, 1, 4, 3) for t in (k, v))
    q = q.transpose(1, 2)[:, :, :, None]
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    return attend(q, k, v)


def tokens_out(m: Any, truth: Truth) -> Tensor:
    """One query a batch entry: five make a sample."""
    return m.out(truth.read.flatten(1)).view(2, 5, 20)


def blocked_truth(m: Any, inputs: Any) -> Truth:
    """Blocks of four folded into the batch."""
    return usual()(m, (inputs[0].reshape(-1, 4, 20),))


def long() -> Inputs:
    """Twelve tokens."""
    return (noise(2, 12, 20),)


BAND = frozenset({"causal-bottom-right", "window", "padding"})

STYLES: tuple[Style, ...] = (
    Style(
        name="shifted-windows", build=seeded(ShiftedWindows), inputs=lambda: (noise(2, 4, 6, 20),),
        batch=12, queries=4, keys=4, bias=True, mask=frozenset({"custom"}),
        visible=(2 * 16 + 2 * 8 + 8 + 4) / 96, truth=windows_truth, output=windows_output,
        note="windows are folded into the batch; -100 masks",
    ),
    Style(
        name="chunks-as-an-axis", build=core(chunks_as_axis), inputs=long, batch=6, queries=4,
        keys=4, truth=blocked_truth, output=blocks_output,
    ),
    Style(
        name="chunks-by-loop", build=core(chunks_by_loop), inputs=long, calls=3, queries=4,
        keys=4, output=None,
        truth=lambda m, i: usual()(m, (i[0][:, 8:],)),
    ),
    Style(
        name="blocks-look-back", build=core(look_back), inputs=long, batch=6, queries=4, keys=8,
        mask=frozenset({"causal-bottom-right", "padding"}), visible=(10 + 26 + 26) / 96,
        truth=look_back_truth, output=blocks_output,
        note="the block before the first one is padding",
    ),
    Style(
        name="banded-chunks-as-strided", build=core(banded_chunks), inputs=long, batch=12,
        queries=2, keys=6, mask=BAND, visible=54 / 72, truth=banded_truth,
        output=lambda m, t: m.out(t.merged).reshape(2, 12, 20),
        note="of six keys a query sees the five from its own on; what lies outside is padding",
    ),
    Style(
        name="neighbourhood-unfold", build=seeded(Neighbourhood), batch=10, queries=1, keys=3,
        truth=neighbourhood_truth, output=tokens_out, scale=ROOT,
    ),
)  # fmt: skip
