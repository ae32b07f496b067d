"""Heat maps of attention weights; matplotlib is imported when the first one is drawn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attnscope.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS = 40
MOST_COLUMNS = 4
FAINT = 24
MOST_TITLE = 46

_STEPS = tuple(digit * 10**zeros for zeros in range(7) for digit in (1, 2, 5))
_HIDDEN = "#d4d4d8"
_MAP = "viridis"


@dataclass(frozen=True, slots=True)
class Panel:
    """One head to draw.

    title: what it is, e.g. "encoder.layer.0 · head 3"; note: a second line, e.g. its entropy.
    weights: (queries, keys), over the keys each row sums to 1.
    visible: (queries, keys), False where the mask hides; None: nothing is hidden.
    queries, keys: one label a position, or None.
    """

    title: str
    note: str
    weights: Tensor
    visible: Tensor | None = None
    queries: Sequence[str] | None = None
    keys: Sequence[str] | None = None


def draw(panels: Sequence[Panel], title: str) -> Figure:
    """Return a figure with one heat map a panel, masked pairs in grey.

    All panels share one colour scale, from 0 to the largest weight among them; over many keys,
    where weights are small, it follows their square root, and its label says so.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: there is nothing to draw.
    """
    if not panels:
        raise InputError("drawing weights", "no head was chosen", "choose heads as CALL:HEAD")
    figure_class, norm_class = _matplotlib()
    faint = max(panel.weights.shape[1] for panel in panels) > FAINT
    columns = _columns(panels)
    rows = math.ceil(len(panels) / columns)
    side = _side(panels)
    size = (columns * side + 1.0, rows * (side * _ratio(panels) + 0.5) + 0.5)
    figure = figure_class(figsize=size, layout="constrained", dpi=_dpi(size))
    axes = figure.subplots(rows, columns, squeeze=False)
    largest = max(float(panel.weights.nan_to_num(0.0).max()) for panel in panels)
    norm = norm_class(0.5 if faint else 1.0, vmin=0.0, vmax=largest or 1.0)
    image: Any = None
    for place, panel in zip(axes.flat, panels, strict=False):
        image = _heat_map(place, panel, norm, side)
    for place in list(axes.flat)[len(panels) :]:
        place.set_axis_off()
    label = "weight (square-root scale)" if faint else "weight"
    figure.colorbar(image, ax=axes, label=label, shrink=0.6, aspect=30, pad=0.01)
    figure.suptitle(f"{title}  (rows: queries, columns: keys{_grey(panels)})", fontsize=10)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG.

    Raises:
        InputError: the file can't be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a box stands for such a letter
            figure.savefig(path, format="png")
    except OSError as error:
        raise InputError(
            f"writing {path}", error.strerror or str(error), "name a file in a folder that exists"
        ) from error


def _matplotlib() -> tuple[type[Figure], type[Any]]:
    try:
        from matplotlib.colors import PowerNorm
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("drawing weights", "matplotlib", "plots") from error
    return Figure, PowerNorm


def _heat_map(axes: Axes, panel: Panel, norm: Any, side: float) -> Any:
    """Draw one head into `axes` and return the image, for the colour bar."""
    import numpy as np

    weights = panel.weights.detach().float().cpu().numpy()
    hidden = ~np.isfinite(weights)
    if panel.visible is not None:
        hidden |= ~panel.visible.cpu().numpy()
    axes.set_facecolor(_HIDDEN)
    image = axes.imshow(
        np.ma.masked_array(weights, hidden),
        cmap=_MAP,
        norm=norm,
        aspect="auto",
        interpolation="nearest",
    )
    cut = len(panel.title) - MOST_TITLE
    title = f"…{panel.title[cut + 1 :]}" if cut > 0 else panel.title
    axes.set_title(f"{title}\n{panel.note}", fontsize=8)
    _labels(axes, "x", panel.keys, weights.shape[1], side)
    _labels(axes, "y", panel.queries, weights.shape[0], side)
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def _grey(panels: Sequence[Panel]) -> str:
    """Return what grey means, where there is any."""
    masked = any(panel.visible is not None and not bool(panel.visible.all()) for panel in panels)
    without = any(not bool(panel.weights.isfinite().all()) for panel in panels)
    meanings = ["hidden by the mask"] * masked + ["not a number"] * without
    return f", grey: {' or '.join(meanings)}" if meanings else ""


def _labels(axes: Axes, axis: str, labels: Sequence[str] | None, count: int, side: float) -> None:
    """Label every position where there is room, else some of them by number."""
    size = max(4.0, min(8.0, 50 * side / max(count, 1)))
    if labels is None or count > MOST_LABELS:
        step = next(s for s in _STEPS if s * 10 >= count or s == _STEPS[-1])
        ticks = list(range(0, count, step))
        texts, size = [str(tick) for tick in ticks], 7.0
    else:
        ticks, texts = list(range(count)), [_short(label) for label in labels]
    turned = 90 if axis == "x" and labels is not None and count <= MOST_LABELS else 0
    if axis == "x":
        axes.set_xticks(ticks, texts, fontsize=size, rotation=turned)
    else:
        axes.set_yticks(ticks, texts, fontsize=size)


def _short(label: str, most: int = 14) -> str:
    """Return a label that fits beside a map; `$` would start a formula."""
    text = label if len(label) <= most else f"{label[: most - 1]}…"
    return text.replace("$", r"\$")


def _columns(panels: Sequence[Panel]) -> int:
    """Return how many panels stand side by side: near a square, with as few gaps as can be.

    A picture about as wide as high keeps its labels readable where it is shown in a column of text.
    """
    count = len(panels)
    if count < MOST_COLUMNS:
        return count
    least = math.ceil(math.sqrt(count))
    return min(range(least, max(least, MOST_COLUMNS) + 1), key=lambda columns: -count % columns)


def _side(panels: Sequence[Panel]) -> float:
    """Return the width of a panel in inches: more for more labels, less for many panels."""
    longest = max(max(panel.weights.shape) for panel in panels)
    wanted = 2.6 + 0.06 * min(longest, MOST_LABELS)
    return max(1.6, wanted - 0.08 * max(0, len(panels) - 12))


def _ratio(panels: Sequence[Panel]) -> float:
    """Return height by width of the panels; a few queries over many keys are drawn flat."""
    queries, keys = (max(panel.weights.shape[axis] for panel in panels) for axis in (0, 1))
    return max(0.35, min(1.6, queries / max(keys, 1)))


def _dpi(size: tuple[float, float]) -> float:
    """Return dots per inch: 150, less where the picture would become larger than 6000 dots."""
    return min(150.0, 6000 / max(size))
