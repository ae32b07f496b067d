"""How large images and their patches are, as the configuration says it or an attempt wants it."""

from __future__ import annotations

from attnscope.targets.architectures.plan import Plan

VISION = ("vision_config", "backbone_config", "encoder", "image_encoder", "visual_config")


def image_side(plan: Plan) -> tuple[int, int]:
    """Return the height and width of an image, in pixels."""
    if plan.side is not None:
        return plan.side
    size = plan.look("image_size", parts=VISION, default=64)
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[-1])
    return (int(size), int(size)) if isinstance(size, int) else (64, 64)


def image_channels(plan: Plan) -> int:
    """Return the number of colours of a pixel."""
    if plan.channels is not None:
        return plan.channels
    value = plan.look("num_channels", "in_channels", "in_chans", parts=VISION, default=3)
    return value if isinstance(value, int) else 3


def patch_side(plan: Plan) -> tuple[int, int]:
    """Return the side of a patch and how many frames it spans."""
    side = plan.look("patch_size", parts=VISION, default=8)
    span = plan.look("temporal_patch_size", "patch_temporal", parts=VISION, default=1)
    side = side[-1] if isinstance(side, list | tuple) else side
    span = span[0] if isinstance(span, list | tuple) else span
    return int(side), int(span)
