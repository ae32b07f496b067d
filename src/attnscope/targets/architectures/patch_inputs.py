"""Images that come cut into patches: the patches, and what says where each of them lay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attnscope.targets.architectures.pixels import image_channels, image_side, patch_side
from attnscope.targets.architectures.plan import Plan

if TYPE_CHECKING:
    import torch

# (frames, rows, columns) of each image or video, in patches; all sizes differ
GRID = ((1, 4, 8), (1, 4, 8))
VIDEO_GRID = ((2, 4, 4), (2, 4, 4))
ROWS = (6, 12)  # rows and columns of patches of an image that is one row of the batch


def patches(plan: Plan, grid: tuple[tuple[int, int, int], ...]) -> torch.Tensor:
    """Return the patches of all images of `grid`, in the form of this attempt."""
    import torch

    side, span = patch_side(plan)
    count = sum(t * h * w for t, h, w in grid)
    channels = image_channels(plan)
    if plan.patch_width:
        return torch.randn(count, plan.patch_width)
    if plan.image_form == "square patches":
        return torch.randn(count, channels, side, side)
    if plan.image_form == "batched square patches":
        return torch.randn(1, count, channels, side, side)
    if plan.image_form == "pixel patches":
        return torch.randn(count, 4 * side * side, channels)
    if plan.image_form == "flat patches":
        return torch.randn(count, channels * side * side)
    return torch.randn(count, channels * span * side * side)


def grid_thw(_plan: Plan) -> torch.Tensor:
    """Return one row (frames, rows, columns), in patches, for each image."""
    import torch

    return torch.tensor(GRID)


def image_grid_hw(_plan: Plan) -> torch.Tensor:
    """Return one row (rows, columns), in patches, for each image."""
    import torch

    return torch.tensor([grid[1:] for grid in GRID])


def video_grid_thw(_plan: Plan) -> torch.Tensor:
    """Return one row (frames, rows, columns), in patches, for each video."""
    import torch

    return torch.tensor(VIDEO_GRID)


def spatial_shapes(plan: Plan) -> torch.Tensor:
    """Return the rows and columns of patches of each image."""
    import torch

    return torch.tensor([ROWS] * plan.batch)


def target_sizes(plan: Plan) -> torch.Tensor:
    """Return the rows and columns of patches of each image."""
    import torch

    side, _ = patch_side(plan)
    height, width = image_side(plan)
    return torch.tensor([(height // side, width // side)] * plan.batch, dtype=torch.int32)


def flattened_patches(plan: Plan) -> torch.Tensor:
    """Return patches (batch, patches, 2 + pixels) whose first two entries are row and column."""
    import torch

    side, _ = patch_side(plan)
    places = torch.cartesian_prod(torch.arange(1, 4), torch.arange(1, 5)).float()
    pixels = torch.randn(plan.batch, len(places), image_channels(plan) * side * side)
    return torch.cat([places.expand(plan.batch, -1, -1), pixels], dim=-1)


def merge_sizes(_plan: Plan) -> torch.Tensor:
    """Return how many patches a side become one feature, for each image."""
    import torch

    return torch.full((len(GRID),), 2)


def pixel_position_ids(plan: Plan) -> torch.Tensor:
    """Return the column and row of each patch (batch, patches, 2)."""
    import torch

    places = torch.cartesian_prod(torch.arange(ROWS[0]), torch.arange(ROWS[1]))
    return places.flip(-1).expand(plan.batch, -1, -1)


def bool_masked_pos(plan: Plan) -> torch.Tensor:
    """Return True for the patches that are hidden, the same number in each row."""
    import torch

    side, _ = patch_side(plan)
    height, width = image_side(plan)
    mask = torch.zeros(plan.batch, (height // side) * (width // side), dtype=torch.bool)
    mask[:, ::2] = True
    return mask


def rows(plan: Plan) -> torch.Tensor:
    """Return flattened patches (batch, patches, pixels)."""
    import torch

    side, _ = patch_side(plan)
    return torch.randn(plan.batch, ROWS[0] * ROWS[1], image_channels(plan) * side * side)


def strip(plan: Plan) -> torch.Tensor:
    """Return the patches of all images side by side (1, channels, side, side * patches)."""
    import torch

    side, _ = patch_side(plan)
    count = int(target_sizes(plan).prod(-1).sum())
    return torch.randn(1, image_channels(plan), side, side * count)


MAKERS: dict[str, Callable[[Plan], Any]] = {
    "image_grid_thw": grid_thw,
    "grid_thw": grid_thw,
    "image_grid_hw": image_grid_hw,
    "video_grid_thw": video_grid_thw,
    "spatial_shapes": spatial_shapes,
    "target_sizes": target_sizes,
    "flattened_patches": flattened_patches,
    "image_merge_sizes": merge_sizes,
    "merge_sizes": merge_sizes,
    "pixel_position_ids": pixel_position_ids,
    "image_position_ids": pixel_position_ids,
    "bool_masked_pos": bool_masked_pos,
}
