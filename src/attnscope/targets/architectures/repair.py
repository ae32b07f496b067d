"""Reading what a forward complains about, and changing the plan for the next attempt."""

from __future__ import annotations

import re
import traceback

from attnscope.targets.architectures.inputs import COMPANIONS, MAKERS, wanted
from attnscope.targets.architectures.plan import (
    FEATURE_FORMS,
    IDS_FORMS,
    IMAGE_FORMS,
    WAVE_FORMS,
    Plan,
)
from attnscope.targets.architectures.text_inputs import PLACEHOLDERS, codebooks

_FEATURES = re.compile(
    r"(?P<kind>\w+) features and .*tokens do not match.*?tokens: (\d+).*?features:? (?P<count>\d+)", re.S
)
_VECTORS = re.compile(r"Got (?P<count>\d+) (?P<kind>feature) vectors for \d+ placeholder tokens")
_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")
_LENGTH = re.compile(r"mel input features to be of length (\d+)")
_TILES = re.compile(r"to sum exactly to (\d+) .*split_sizes=\[(\d+), \2\]")
_PRODUCT = re.compile(r"cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)")
_ABSENT = re.compile(r"None|must|missing")
_SIZE = re.compile(r"doesn't match model \((\d+)\*(\d+)\)")


def repair(plan: Plan, error: Exception) -> bool:
    """Change `plan` after `error`; return whether there is something left to try."""
    text = str(error)
    if match := _FEATURES.search(text) or _VECTORS.search(text):
        kind, count = match["kind"].lower(), int(match["count"])
        kind = kind if kind in PLACEHOLDERS else "image"
        if plan.placeholders.get(kind) == count:  # it counted numbers, not vectors
            count //= int(plan.look("hidden_size", parts=("text_config",), default=1))
        if count and plan.placeholders.get(kind) != count:
            plan.placeholders[kind] = count
            return True
    if match := _UNEXPECTED.search(text):
        if match[1] not in plan.dropped:
            plan.dropped.add(match[1])
            return True
    if match := _LENGTH.search(text):
        plan.frames = int(match[1])
        return True
    if match := _SIZE.search(text):
        plan.side = (int(match[1]), int(match[2]))
        return True
    if match := _TILES.search(text):
        if plan.tiles != int(match[2]) and "pixel_values" in plan.parameters():
            plan.tiles, plan.image_form = int(match[2]), "frames"
            return True
    if match := _PRODUCT.search(text):
        if not plan.patch_width and match[1] != match[2] and "patches" in plan.image_form:
            plan.patch_width = int(match[2])
            return True
        if plan.width != int(match[2]) and {"hidden_states", "inputs_embeds"} & set(wanted(plan)):
            plan.width = int(match[2])
            return True
    if _missing(plan, f"{text} {_source(error)}") or _next_form(plan):
        return True
    if (match := _PRODUCT.search(text)) and not plan.mels and "input_features" in plan.parameters():
        plan.mels, plan.feature_form = int(match[2]), FEATURE_FORMS[0]
        return True
    return False


def _source(error: Exception) -> str:
    """Return the code of the two innermost lines that raised, which often name what is missing."""
    frames = traceback.extract_tb(error.__traceback__)[-2:]
    return " ".join(frame.line or "" for frame in frames) if _ABSENT.search(str(error)) else ""


def _missing(plan: Plan, text: str) -> bool:
    """Give the first optional argument that the message names and that is not given yet."""
    given = set(wanted(plan))
    for name in plan.parameters():
        if name == "inputs_embeds" and "input_ids" in given:
            continue
        if re.search(rf"\b{name}\b", text) and name in MAKERS and name not in plan.given | plan.dropped | given:
            plan.given.add(name)
            return True
    return False


def _next_form(plan: Plan) -> bool:
    """Move to the next shape of images or audio, and last drop the attention mask."""
    parameters = plan.parameters()
    ids = {"input_ids", "decoder_input_ids"} & set(wanted(plan))
    if ids and codebooks(plan) and plan.ids_form != IDS_FORMS[-1]:
        plan.ids_form = IDS_FORMS[IDS_FORMS.index(plan.ids_form) + 1]
        return True
    if "pixel_values" in parameters:
        forms = image_forms(plan)
        place = forms.index(plan.image_form) + 1
        if place < len(forms):
            plan.image_form = forms[place]
            return True
    given = set(wanted(plan))
    if "input_features" in given and plan.feature_form != FEATURE_FORMS[-1]:
        plan.feature_form = FEATURE_FORMS[FEATURE_FORMS.index(plan.feature_form) + 1]
        return True
    if "input_values" in given and plan.wave_form != WAVE_FORMS[-1]:
        plan.wave_form = WAVE_FORMS[WAVE_FORMS.index(plan.wave_form) + 1]
        plan.feature_form = FEATURE_FORMS[0]
        return True
    if "attention_mask" in parameters and "attention_mask" not in plan.dropped:
        plan.dropped.add("attention_mask")
        return True
    for optional in COMPANIONS:
        if "input_ids" in given and optional in given - plan.required():
            plan.dropped.add(optional)
            plan.dropped.discard("attention_mask")
            plan.image_form = image_forms(plan)[0]
            return True
    return False


def image_forms(plan: Plan) -> tuple[str, ...]:
    """Return the shapes to try for `pixel_values`, likeliest first."""
    if "spatial_shapes" in plan.parameters():
        return ("rows",)
    if "aspect_ratio_ids" in plan.parameters():
        return ("tiles",)
    if {"image_grid_thw", "grid_thw", "image_grid_hw"} & set(plan.parameters()):
        return (
            "patches",
            "flat patches",
            "square patches",
            "batched square patches",
            "pixel patches",
        )
    if "target_sizes" in plan.parameters():
        return ("strip", "bare strip")
    if "pixel_position_ids" in plan.required() or "image_position_ids" in plan.parameters():
        return ("rows",)
    if plan.look("image_grid_pinpoints"):
        return ("frames", "image", "tiles")
    return IMAGE_FORMS
