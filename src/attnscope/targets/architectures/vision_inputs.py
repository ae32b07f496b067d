"""Images, videos and tiles in the shapes that models take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attnscope.targets.architectures.patch_inputs import GRID, VIDEO_GRID, patches, rows, strip
from attnscope.targets.architectures.pixels import VISION, image_channels, image_side
from attnscope.targets.architectures.plan import Plan

if TYPE_CHECKING:
    import torch


def pixel_values(plan: Plan) -> torch.Tensor:
    """Return pixels in the form of this attempt."""
    import torch

    height, width = image_side(plan)
    channels = image_channels(plan)
    if "patches" in plan.image_form:
        return patches(plan, GRID)
    if plan.image_form == "frames":
        return torch.randn(plan.batch, plan.tiles or _frames(plan), channels, height, width)
    if plan.image_form == "strip":
        return strip(plan)
    if plan.image_form == "bare strip":
        return strip(plan)[0]
    if plan.image_form == "rows":
        return rows(plan)
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
        return patches(plan, VIDEO_GRID)
    height, width = image_side(plan)
    return torch.randn(plan.batch, _frames(plan), image_channels(plan), height, width)


def image_sizes(plan: Plan) -> torch.Tensor:
    """Return the height and width of each image, in pixels."""
    import torch

    return torch.tensor([image_side(plan)] * plan.batch)


def high_res_pixel_values(plan: Plan) -> torch.Tensor:
    """Return pixels for the second vision tower, at its own image size."""
    import torch

    size = int(plan.look("image_size", parts=("high_res_vision_config",), default=64))
    return torch.randn(plan.batch, image_channels(plan), size, size)


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


def aspect_ratio_ids(plan: Plan) -> torch.Tensor:
    """Return the id of the aspect ratio of each image: two tiles side by side."""
    import torch

    return torch.ones(plan.batch, 1, dtype=torch.long)


def aspect_ratio_mask(plan: Plan) -> torch.Tensor:
    """Return 1 for the tiles that an image fills."""
    import torch

    return torch.ones(plan.batch, 1, _tiles(plan), dtype=torch.long)


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
    "image_sizes": image_sizes,
    "pixel_attention_mask": pixel_attention_mask,
    "aspect_ratio_ids": aspect_ratio_ids,
    "aspect_ratio_mask": aspect_ratio_mask,
    "high_res_pixel_values": high_res_pixel_values,
    "image": pixel_values,
    "sample": pixel_values,
    "prompt_pixel_values": pixel_values,
    "prompt_masks": prompt_masks,
    "visual_feats": visual_feats,
    "visual_pos": visual_pos,
}
