"""Reading what a forward complains about, and changing the plan for the next attempt."""

from __future__ import annotations

import re
import traceback

from attnscope.targets.architectures.forms import next_form
from attnscope.targets.architectures.inputs import MAKERS, wanted
from attnscope.targets.architectures.plan import FEATURE_FORMS, Plan
from attnscope.targets.architectures.text_inputs import PLACEHOLDERS

_FEATURES = re.compile(
    r"(?P<kind>\w+) features and .*tokens do not match.*?tokens: \d+.*?features:? (?P<count>\d+)",
    re.DOTALL,
)
_VECTORS = re.compile(r"Got (?P<count>\d+) (?P<kind>feature) vectors for \d+ placeholder tokens")
_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")
_LENGTH = re.compile(r"mel input features to be of length (\d+)")
_SIZE = re.compile(r"doesn't match model \((\d+)\*(\d+)\)")
_TILES = re.compile(r"to sum exactly to (\d+) .*split_sizes=\[(\d+), \2\]")
_PRODUCT = re.compile(r"cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)")
_ABSENT = re.compile(r"None|must|missing")


def repair(plan: Plan, error: Exception) -> bool:
    """Change `plan` after `error`; return whether there is something left to try.

    What the message says in numbers comes first, then arguments that it names, then the next
    shape of the inputs. Each step can happen a bounded number of times.
    """
    text = str(error)
    told = (_count_placeholders, _drop_unexpected, _set_sizes, _count_tiles, _set_width)
    return (
        any(step(plan, text) for step in told)
        or _give_missing(plan, f"{text} {_source(error)}")
        or next_form(plan)
        or _set_mels(plan, text)
    )


def _count_placeholders(plan: Plan, text: str) -> bool:
    """Put as many placeholders into the text as there are features."""
    match = _FEATURES.search(text) or _VECTORS.search(text)
    if match is None:
        return False
    kind, count = match["kind"].lower(), int(match["count"])
    kind = kind if kind in PLACEHOLDERS else "image"
    if plan.placeholders.get(kind) == count:  # it counted numbers, not vectors
        count //= int(plan.look("hidden_size", parts=("text_config",), default=1))
    if count == 0 or plan.placeholders.get(kind) == count:
        return False
    plan.placeholders[kind] = count
    return True


def _drop_unexpected(plan: Plan, text: str) -> bool:
    match = _UNEXPECTED.search(text)
    if match is None or match[1] in plan.dropped:
        return False
    plan.dropped.add(match[1])
    return True


def _set_sizes(plan: Plan, text: str) -> bool:
    """Take over the number of frames or the size of images that the message asks for."""
    if (match := _LENGTH.search(text)) and plan.frames != int(match[1]):
        plan.frames = int(match[1])
        return True
    if (match := _SIZE.search(text)) and plan.side != (int(match[1]), int(match[2])):
        plan.side = (int(match[1]), int(match[2]))
        return True
    return False


def _count_tiles(plan: Plan, text: str) -> bool:
    match = _TILES.search(text)
    if match is None or plan.tiles == int(match[2]) or "pixel_values" not in plan.parameters():
        return False
    plan.tiles, plan.image_form = int(match[2]), "frames"
    return True


def _set_width(plan: Plan, text: str) -> bool:
    """Make patches or hidden states as wide as the first weight that they meet."""
    match = _PRODUCT.search(text)
    if match is None or match[1] == match[2]:
        return False
    if not plan.patch_width and "patches" in plan.image_form:
        plan.patch_width = int(match[2])
        return True
    if plan.width != int(match[2]) and {"hidden_states", "inputs_embeds"} & set(wanted(plan)):
        plan.width = int(match[2])
        return True
    return False


def _set_mels(plan: Plan, text: str) -> bool:
    """Take the width of the first weight for the number of mels, and try all shapes again."""
    match = _PRODUCT.search(text)
    if match is None or plan.mels or "input_features" not in plan.parameters():
        return False
    plan.mels, plan.feature_form = int(match[2]), FEATURE_FORMS[0]
    return True


def _give_missing(plan: Plan, text: str) -> bool:
    """Give the first optional argument that the message names and that is not given yet."""
    given = set(wanted(plan))
    for name in plan.parameters():
        known = name in MAKERS and name not in plan.given | plan.dropped | given
        twice = name == "inputs_embeds" and "input_ids" in given
        if known and not twice and re.search(rf"\b{name}\b", text):
            plan.given.add(name)
            return True
    return False


def _source(error: Exception) -> str:
    """Return the code of the two innermost lines that raised, which often name what is missing."""
    if not _ABSENT.search(str(error)):
        return ""
    frames = traceback.extract_tb(error.__traceback__)[-2:]
    return " ".join(frame.line or "" for frame in frames)
