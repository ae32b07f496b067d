"""The shapes in which models take images, audio and streams of tokens, and the order to try them.

An attempt that fails for a reason nobody can read moves on to the next shape.
"""

from __future__ import annotations

from attnscope.targets.architectures.inputs import COMPANIONS, wanted
from attnscope.targets.architectures.plan import (
    FEATURE_FORMS,
    IDS_FORMS,
    IMAGE_FORMS,
    WAVE_FORMS,
    Plan,
)
from attnscope.targets.architectures.text_inputs import codebooks

_GRIDS = frozenset({"image_grid_thw", "grid_thw", "image_grid_hw"})


def image_forms(plan: Plan) -> tuple[str, ...]:
    """Return the shapes to try for `pixel_values`, likeliest first, judged by its neighbours."""
    parameters = set(plan.parameters())
    if parameters & {"spatial_shapes", "image_position_ids", "pixel_position_ids"}:
        return ("rows",)
    if "aspect_ratio_ids" in parameters:
        return ("tiles",)
    if parameters & _GRIDS:
        return (
            "patches",
            "flat patches",
            "square patches",
            "batched square patches",
            "pixel patches",
        )
    if "target_sizes" in parameters:
        return ("strip", "bare strip")
    if plan.look("image_grid_pinpoints"):
        return ("frames", "image", "tiles")
    return IMAGE_FORMS


def next_form(plan: Plan) -> bool:
    """Move to the next shape; past the last ones, drop what the model can do without.

    Returns whether anything was left to change.
    """
    given = set(wanted(plan))
    return (
        _next_ids(plan, given)
        or _next_image(plan)
        or _next_audio(plan, given)
        or _drop_mask(plan)
        or _drop_modality(plan, given)
    )


def _after(forms: tuple[str, ...], form: str) -> str | None:
    place = forms.index(form) + 1 if form in forms else len(forms)
    return forms[place] if place < len(forms) else None


def _next_ids(plan: Plan, given: set[str]) -> bool:
    form = _after(IDS_FORMS, plan.ids_form)
    if form is None or not codebooks(plan) or not given & {"input_ids", "decoder_input_ids"}:
        return False
    plan.ids_form = form
    return True


def _next_image(plan: Plan) -> bool:
    form = _after(image_forms(plan), plan.image_form)
    if form is None or "pixel_values" not in plan.parameters():
        return False
    plan.image_form = form
    return True


def _next_audio(plan: Plan, given: set[str]) -> bool:
    """Go through all shapes of spectrograms for each shape of waves."""
    form = _after(FEATURE_FORMS, plan.feature_form)
    if "input_features" in given and form is not None:
        plan.feature_form = form
        return True
    form = _after(WAVE_FORMS, plan.wave_form)
    if "input_values" in given and form is not None:
        plan.wave_form, plan.feature_form = form, FEATURE_FORMS[0]
        return True
    return False


def _drop_mask(plan: Plan) -> bool:
    if "attention_mask" not in plan.parameters() or "attention_mask" in plan.dropped:
        return False
    plan.dropped.add("attention_mask")
    return True


def _drop_modality(plan: Plan, given: set[str]) -> bool:
    """Leave out one optional modality beside the text, and start over with the shapes."""
    for modality in COMPANIONS:
        if "input_ids" in given and modality in given - plan.required():
            plan.dropped.add(modality)
            plan.dropped.discard("attention_mask")
            plan.image_form = image_forms(plan)[0]
            return True
    return False
