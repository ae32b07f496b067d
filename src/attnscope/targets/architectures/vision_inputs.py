"""Images, videos and flattened patches in the shapes that models take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attnscope.targets.architectures.plan import Plan

if TYPE_CHECKING:
    import torch

VISION = ("vision_config", "backbone_config", "encoder", "image_encoder", "visual_config")
GRID = ((1, 4, 8), (1, 4, 8))
ROWS = (6, 12)
VIDEO_GRID = ((2, 4, 4), (2, 4, 4))


def _side(plan: Plan) -> tuple[int, int]:
    if plan.side is not None:
        return plan.side
    size = plan.look("image_size", parts=VISION, default=64)
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[-1])
    return (int(size), int(size)) if isinstance(size, int) else (64, 64)


def _channels(plan: Plan) -> int:
    if plan.channels is not None:
        return plan.channels
    value = plan.look("num_channels", "in_channels", "in_chans", parts=VISION, default=3)
    return value if isinstance(value, int) else 3


def _patch(plan: Plan) -> tuple[int, int]:
    """Return the side of a patch and how many frames it spans."""
    side = plan.look("patch_size", parts=VISION, default=8)
    span = plan.look("temporal_patch_size", "patch_temporal", parts=VISION, default=1)
    side = side[-1] if isinstance(side, list | tuple) else side
    span = span[0] if isinstance(span, list | tuple) else span
    return int(side), int(span)


def _patches(plan: Plan, grid: tuple[tuple[int, int, int], ...]) -> torch.Tensor:
    import torch

    side, span = _patch(plan)
    count = sum(t * h * w for t, h, w in grid)
    channels = _channels(plan)
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


def pixel_values(plan: Plan) -> torch.Tensor:
    """Return pixels in the form of this attempt."""
    import torch

    height, width = _side(plan)
    channels = _channels(plan)
    if "patches" in plan.image_form:
        return _patches(plan, GRID)
    if plan.image_form == "frames":
        return torch.randn(plan.batch, plan.tiles or _frames(plan), channels, height, width)
    if "strip" in plan.image_form:
        side, _ = _patch(plan)
        count = sum(int(rows * columns) for rows, columns in target_sizes(plan))
        strip = torch.randn(1, channels, side, side * count)
        return strip if plan.image_form == "strip" else strip[0]
    if plan.image_form == "rows":
        side, _ = _patch(plan)
        return torch.randn(plan.batch, ROWS[0] * ROWS[1], channels * side * side)
    if plan.image_form == "tiles":
        return torch.randn(plan.batch, 1, _tiles(plan), channels, height, width)
    return torch.randn(plan.batch, channels, height, width)


def _tiles(plan: Plan) -> int:
    return int(plan.look("max_num_tiles", parts=VISION, default=2))


def _frames(plan: Plan) -> int:
    value = plan.look("num_frames", parts=VISION, default=2)
    return int(value) if isinstance(value, int) else 2


def pixel_values_videos(plan: Plan) -> torch.Tensor:
    """Return frames (batch, frames, channels, height, width), or their flattened patches."""
    import torch

    if "video_grid_thw" in plan.parameters():
        return _patches(plan, VIDEO_GRID)
    height, width = _side(plan)
    return torch.randn(plan.batch, _frames(plan), _channels(plan), height, width)


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


def image_sizes(plan: Plan) -> torch.Tensor:
    """Return the height and width of each image, in pixels."""
    import torch

    return torch.tensor([_side(plan)] * plan.batch)


def high_res_pixel_values(plan: Plan) -> torch.Tensor:
    """Return pixels for the second vision tower, at its own image size."""
    import torch

    size = int(plan.look("image_size", parts=("high_res_vision_config",), default=64))
    return torch.randn(plan.batch, _channels(plan), size, size)


def spatial_shapes(plan: Plan) -> torch.Tensor:
    """Return the rows and columns of patches of each image."""
    import torch

    return torch.tensor([ROWS] * plan.batch)


def pixel_attention_mask(plan: Plan) -> torch.Tensor:
    """Return 1 for every patch, pixel or tile."""
    import torch

    pixels = pixel_values(plan)
    if plan.tile_mask:
        return torch.ones(plan.batch, pixels.shape[1] if pixels.ndim == 5 else 1, dtype=torch.bool)
    if plan.image_form == "rows":
        return torch.ones(pixels.shape[:2], dtype=torch.long)
    if plan.image_form == "image":
        return torch.ones(plan.batch, *pixels.shape[-2:], dtype=torch.long)
    return torch.ones(*pixels.shape[:2], *pixels.shape[-2:], dtype=torch.long)


def target_sizes(plan: Plan) -> torch.Tensor:
    """Return the rows and columns of patches of each image."""
    import torch

    side, _ = _patch(plan)
    height, width = _side(plan)
    return torch.tensor([(height // side, width // side)] * plan.batch, dtype=torch.int32)


def flattened_patches(plan: Plan) -> torch.Tensor:
    """Return patches (batch, patches, 2 + pixels) whose first two entries are row and column."""
    import torch

    side, _ = _patch(plan)
    places = torch.cartesian_prod(torch.arange(1, 4), torch.arange(1, 5)).float()
    pixels = torch.randn(plan.batch, len(places), _channels(plan) * side * side)
    return torch.cat([places.expand(plan.batch, -1, -1), pixels], dim=-1)


def aspect_ratio_ids(plan: Plan) -> torch.Tensor:
    """Return the id of the aspect ratio of each image: two tiles side by side."""
    import torch

    return torch.ones(plan.batch, 1, dtype=torch.long)


def aspect_ratio_mask(plan: Plan) -> torch.Tensor:
    """Return 1 for the tiles that an image fills."""
    import torch

    return torch.ones(plan.batch, 1, _tiles(plan), dtype=torch.long)


def merge_sizes(plan: Plan) -> torch.Tensor:
    """Return how many patches a side become one feature, for each image."""
    import torch

    return torch.full((len(GRID),), 2)


def bool_masked_pos(plan: Plan) -> torch.Tensor:
    """Return True for the patches that are hidden, the same number in each row."""
    import torch

    side, _ = _patch(plan)
    height, width = _side(plan)
    mask = torch.zeros(plan.batch, (height // side) * (width // side), dtype=torch.bool)
    mask[:, ::2] = True
    return mask


def pixel_position_ids(plan: Plan) -> torch.Tensor:
    """Return the column and row of each patch (batch, patches, 2)."""
    import torch

    places = torch.cartesian_prod(torch.arange(ROWS[0]), torch.arange(ROWS[1]))
    return places.flip(-1).expand(plan.batch, -1, -1)


def prompt_masks(plan: Plan) -> torch.Tensor:
    """Return an answer image beside each prompt image."""
    return pixel_values(plan)


def visual_feats(plan: Plan) -> torch.Tensor:
    """Return features of detected regions (batch, regions, width)."""
    import torch

    return torch.randn(plan.batch, 5, int(plan.look("visual_feat_dim", default=32)))


def visual_pos(plan: Plan) -> torch.Tensor:
    """Return boxes of detected regions (batch, regions, 4), as fractions."""
    import torch

    return torch.rand(plan.batch, 5, 4)


MAKERS: dict[str, Callable[[Plan], Any]] = {
    "pixel_values": pixel_values,
    "pixel_values_videos": pixel_values_videos,
    "image_grid_thw": grid_thw,
    "grid_thw": grid_thw,
    "image_grid_hw": image_grid_hw,
    "video_grid_thw": video_grid_thw,
    "image_sizes": image_sizes,
    "spatial_shapes": spatial_shapes,
    "pixel_attention_mask": pixel_attention_mask,
    "target_sizes": target_sizes,
    "flattened_patches": flattened_patches,
    "aspect_ratio_ids": aspect_ratio_ids,
    "aspect_ratio_mask": aspect_ratio_mask,
    "image_merge_sizes": merge_sizes,
    "merge_sizes": merge_sizes,
    "high_res_pixel_values": high_res_pixel_values,
    "image": pixel_values,
    "sample": pixel_values,
    "pixel_position_ids": pixel_position_ids,
    "image_position_ids": pixel_position_ids,
    "prompt_pixel_values": pixel_values,
    "prompt_masks": prompt_masks,
    "visual_feats": visual_feats,
    "visual_pos": visual_pos,
    "bool_masked_pos": bool_masked_pos,
}
