"""A model that is ready to run, with all that belongs to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from attnscope.calls.source import Source

Inputs = dict[str, Any] | tuple[Any, ...]

_ID_INPUTS = ("input_ids", "decoder_input_ids")


@dataclass(frozen=True, slots=True)
class Target:
    """What a TARGET stands for.

    name: the TARGET as it was given.
    model: in the mode (train or eval) in which its author left it.
    inputs: keyword arguments (a dict) or positional ones (a tuple) for `model`.
    expect: what the author intends, in the keys of `attnscope.checks.expect.KEYS`.
    tokenizer: turns token ids into text; None where the target has no vocabulary of words.
    folder: the folder of the file that defines the model, from which that file imports; or None.
    maker: the line of that file that says what the target is.
    """

    name: str
    model: nn.Module
    inputs: Inputs
    expect: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Any | None = None
    folder: Path | None = None
    maker: Source | None = None

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of a run."""
        return self.inputs if isinstance(self.inputs, tuple) else ()

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of a run."""
        return self.inputs if isinstance(self.inputs, dict) else {}

    def tokens(
        self, inputs: Inputs | None = None, *, length: int | None = None, row: int = 0
    ) -> tuple[str, ...] | None:
        """Return one label per position, or None where positions have no words.

        Args:
            inputs: what the model ran with, when it was not `self.inputs`.
            length: number of positions that the labels are for. Of several sequences (encoder and
                decoder) the one of this length is taken; None takes the first.
            row: the sample of the batch.
        """
        given = self.inputs if inputs is None else inputs
        if self.tokenizer is None or not isinstance(given, dict):
            return None
        for name in _ID_INPUTS:
            ids = given.get(name)
            if not isinstance(ids, Tensor) or ids.ndim != 2 or row >= ids.shape[0]:
                continue
            if length is None or ids.shape[1] == length:
                return tuple(_label(self.tokenizer, token) for token in ids[row].tolist())
        return None


def _label(tokenizer: Any, token: int) -> str:
    """Return the text of one token id, without blanks around it, never empty."""
    text = str(tokenizer.decode([token])).strip(" ")
    return text.replace("\n", "\\n").replace("\t", "\\t") or "␣"
