"""Whether a verification said what is true about a port."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .case import Port

__all__ = ["Verdict", "judge"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was right: the difference was found, in its stage and call, by its name and numbers.

    said: stage, key and text as they were reported.
    """

    found: bool
    stage: bool
    call: bool
    key: bool
    text: bool
    said: tuple[str, str, str]

    @property
    def right(self) -> bool:
        """Whether everything was right."""
        return self.found and self.stage and self.call and self.key and self.text

    @property
    def wrong(self) -> tuple[str, ...]:
        """What was not right."""
        names = ("found", "stage", "call", "key", "text")
        return tuple(name for name in names if not getattr(self, name))


def stands(word: str, text: str) -> bool:
    """Return whether a word stands in a text: a number or a letter by itself, not in a path.

    A decimal number may have more digits there.
    """
    said = re.sub(r"\bat \S+:\d+", "", text)
    if len(word) > 1 and not word.replace(".", "").isdigit():
        return word in said
    end = "" if "." in word else r"(?!\w|\.\d)"
    return re.search(rf"(?<![\w.]){re.escape(word)}{end}", said) is not None


def judge(port: Port, result: Any) -> Verdict:
    """Compare a verification of a faulty port with the truth about it."""
    first = result.first_difference
    if result.equal or first is None:
        return Verdict(
            found=False, stage=False, call=False, key=False, text=False, said=("-", "-", "")
        )
    explanation = first.explanation
    key = "-" if explanation is None else explanation.key
    text = "" if explanation is None else explanation.text
    calls = port.call if isinstance(port.call, tuple) else (port.call,)
    lowered = text.lower()
    return Verdict(
        found=True,
        stage=first.stage in port.stages,
        # A difference in the model's own output belongs to no call.
        call=first.stage == "model" or first.call in calls,
        key=key in {port.key, *port.also},
        text=any(stands(word.lower(), lowered) for word in port.says),
        said=(f"{first.stage} {first.call}", key, text),
    )
