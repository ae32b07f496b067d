"""Pictures: written, of a size that can be looked at, masked pairs told from small weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from attnscope.errors import InputError
from attnscope.show.plots import Panel, draw, save


def panel(queries: int, keys: int, labels: list[str] | None = None) -> Panel:
    scores = torch.randn(queries, keys)
    visible = torch.ones(queries, keys, dtype=torch.bool).tril()
    weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
    return Panel("layer.0 · head 3", "call 0", weights, visible, labels, labels)


def colours(path: Path) -> set[tuple[int, ...]]:
    with Image.open(path) as image:
        found = image.convert("RGB").getcolors(maxcolors=1 << 24)
    assert found is not None
    return {colour for _, colour in found if isinstance(colour, tuple)}


@pytest.mark.parametrize(
    ("count", "queries", "keys", "labels"),
    [
        (1, 6, 6, ["[CLS]", "the", "$cat$", "sat_", "a" * 40, "日本"]),
        (3, 6, 6, None),
        (40, 12, 12, None),
        (2, 1, 300, None),
        (1, 400, 400, None),
    ],
    ids=["labels", "row", "many", "one-query", "long"],
)
def test_a_picture_is_written(
    tmp_path: Path, count: int, queries: int, keys: int, labels: list[str] | None
) -> None:
    path = tmp_path / "weights.png"
    save(draw([panel(queries, keys, labels) for _ in range(count)], "net.py"), path)
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert 300 < image.width <= 6100
        assert 200 < image.height <= 6100


@pytest.mark.parametrize(
    ("count", "columns", "rows"),
    [(1, 1, 1), (3, 3, 1), (4, 2, 2), (6, 3, 2), (8, 4, 2), (20, 5, 4)],
)
def test_panels_stand_near_a_square_with_few_gaps(count: int, columns: int, rows: int) -> None:
    figure = draw([panel(6, 6) for _ in range(count)], "net.py")
    grid = figure.axes[0].get_subplotspec()
    assert grid is not None
    assert grid.get_gridspec().get_geometry() == (rows, columns)


def test_hidden_pairs_have_a_colour_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "weights.png"
    save(draw([panel(6, 6)], "net.py"), path)
    grey = (0xD4, 0xD4, 0xD8)
    assert grey in colours(path)
    save(draw([Panel("a", "b", torch.eye(6))], "net.py"), path)
    assert grey not in colours(path)


def test_a_row_of_nan_is_drawn_as_hidden(tmp_path: Path) -> None:
    weights = torch.eye(6)
    weights[2] = torch.nan
    save(draw([Panel("a", "b", weights)], "net.py"), tmp_path / "weights.png")
    assert (0xD4, 0xD4, 0xD8) in colours(tmp_path / "weights.png")


def test_nothing_to_draw_and_nowhere_to_write_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no head was chosen"):
        draw([], "net.py")
    with pytest.raises(InputError, match="name a file in a folder that exists"):
        save(draw([panel(3, 3)], "net.py"), tmp_path / "missing" / "weights.png")
