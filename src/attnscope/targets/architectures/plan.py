"""What is known while inputs for a model are made, and what may vary between attempts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r"(^|_)token_(id|index|ids)$|_token_id$")

IDS_FORMS = ("flat", "rows", "last", "middle")
IMAGE_FORMS = ("image", "frames", "tiles", "rows")
FEATURE_FORMS = ("mel first", "time first", "channel first", "packed")
WAVE_FORMS = ("wave", "one channel", "spectrogram")


@dataclass(slots=True)
class Plan:
    """Sizes and choices for one attempt; a repair changes it and the inputs are made again."""

    config: Any
    model: Any
    batch: int = 2
    ids_form: str = "flat"
    codebooks: int = 0
    length: int = 11
    decoder_length: int = 7
    padded: int = 3
    image_form: str = ""
    feature_form: str = "mel first"
    wave_form: str = "wave"
    frames: int = 0
    tiles: int = 0
    patch_width: int = 0
    mels: int = 0
    width: int = 0
    unit_boxes: bool = False
    tile_mask: bool = False
    samples: int = 3840
    side: tuple[int, int] | None = None
    channels: int | None = None
    placeholders: dict[str, int] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)

    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return the named parameters of the model's forward."""
        signature = inspect.signature(self.model.forward)
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return {name: item for name, item in signature.parameters.items() if item.kind not in kinds}

    def required(self) -> set[str]:
        """Return the parameters of the model's forward that have no default."""
        return {
            name
            for name, item in self.parameters().items()
            if item.default is inspect.Parameter.empty
        }

    def look(self, *names: str, default: Any = None, parts: tuple[str, ...] = ()) -> Any:
        """Return the first of the fields `names` that is set, in `parts` first, then anywhere."""
        configs = [getattr(self.config, part) for part in parts if getattr(self.config, part, None)]
        for config in [*configs, *walk(self.config)]:
            for name in names:
                value = _read(config, name)
                if value is not None:
                    return value
        return default

    def special_tokens(self) -> set[int]:
        """Return every token id that a configuration of the tree gives a meaning."""
        found: set[int] = set()
        for config in walk(self.config):
            for name, value in vars(config).items():
                if _TOKEN.search(name):
                    values = value if isinstance(value, list | tuple) else [value]
                    found.update(entry for entry in values if isinstance(entry, int))
        return found


def _read(config: Any, name: str) -> Any:
    """Return the field `name`, also where its class refuses because it differs by layer."""
    try:
        return getattr(config, name, None)
    except RuntimeError:
        return vars(config).get(name)


def walk(config: Any) -> Iterator[Any]:
    """Yield `config` and all its sub-configurations, outermost first."""
    waiting = [config]
    while waiting:
        current = waiting.pop(0)
        yield current
        waiting.extend(
            value
            for value in vars(current).values()
            if hasattr(value, "to_dict") and hasattr(value, "model_type")
        )
